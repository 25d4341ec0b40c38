// Optimizers of the user's own: the same bits as those of pipec that do the same, in checkpoints,
// too.
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <gmock/gmock.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

namespace pipec {
namespace {

/// Stochastic gradient descent with momentum.
class Momentum : public ParameterOptimizer {
public:
  void step(const ValueTree &parameter, const ValueTree &gradient, double rateFactor) override {
    const at::Tensor &found = gradient.ivalue().toTensor();
    buffer_ = buffer_.defined() ? buffer_ * 0.9 + found : found.clone();
    at::Tensor(parameter.ivalue().toTensor()).add_(buffer_, -0.05 * rateFactor);
  }
  ValueTree state() const override {
    return buffer_.defined() ? ValueTree::dict({{"momentum_buffer", ValueTree::of(buffer_)}})
                             : ValueTree::dict({});
  }
  void setState(const ValueTree &state) override {
    buffer_ = state.size() ? state.ivalue().toGenericDict().at("momentum_buffer").toTensor()
                           : at::Tensor();
  }

private:
  at::Tensor buffer_;
};

PipelineOptions withOwn(const Training &how) {
  PipelineOptions options = runTrained(how);
  options.training->optimizer.clear();
  options.training->makeOptimizer = [](const std::string &) {
    return std::make_unique<Momentum>();
  };
  options.training->learningRates = "step,every=2,gamma=0.5";
  return options;
}

class OwnOptimizer : public testing::TestWithParam<Tie::Mode> {};

TEST_P(OwnOptimizer, HasTheBitsOfTheSameOneOfPipec) {
  Training how{.schedule = "1f1b", .devices = {}, .tied = GetParam()};
  how.optimizer = "sgd,lr=0.05,momentum=0.9";
  const std::string artifact = compileTrained(how);
  PipelineOptions named = runTrained(how);
  named.training->learningRates = "step,every=2,gamma=0.5";
  Pipeline expected = take(Pipeline::load(artifact, named));
  Pipeline own = take(Pipeline::load(artifact, withOwn(how)));
  for (int step = 0; step < 4; ++step) {
    take(expected.step(trainingBatch()));
    take(own.step(trainingBatch()));
  }
  EXPECT_TRUE(sameBits(expected.state().ivalue(), own.state().ivalue()));
  EXPECT_TRUE(sameBits(expected.optimizerState().ivalue(), own.optimizerState().ivalue()));
}

INSTANTIATE_TEST_SUITE_P(Ties, OwnOptimizer,
                         testing::Values(Tie::Mode::Transmit, Tie::Mode::Replicate));

TEST(UserOptimizer, IsInCheckpoints) {
  const Training how{.schedule = "1f1b", .devices = {}};
  const std::string artifact = compileTrained(how);
  const std::string checkpoints = scratchPath("own.checkpoints");
  Pipeline whole = take(Pipeline::load(artifact, withOwn(how)));
  take(whole.step(trainingBatch()));
  CheckpointOptions none;
  none.keep = -1;
  EXPECT_TRUE(failedWith(whole.saveCheckpoint(checkpoints, none), ExitCode::Usage,
                         "keep: expected at least 1, or 0 for all checkpoints, got -1"));
  ASSERT_TRUE(succeeded(whole.saveCheckpoint(checkpoints)));
  Pipeline resumed = take(Pipeline::load(artifact, withOwn(how)));
  ASSERT_TRUE(succeeded(resumed.resume(checkpoints)));
  take(whole.step(trainingBatch()));
  take(resumed.step(trainingBatch()));
  EXPECT_TRUE(sameBits(whole.state().ivalue(), resumed.state().ivalue()));
}

TEST(UserOptimizer, NeedsAParameterThatIsNotFrozen) {
  const Training how{.schedule = "1f1b", .devices = {}};
  std::string model;
  const std::string artifact = compileTrained(how, &model);
  PipelineOptions options = withOwn(how);
  options.training->freeze = {"*"};
  const char *expected = "--freeze: expected a parameter that is left to train, got all";
  EXPECT_TRUE(failedWith(Pipeline::load(artifact, options), ExitCode::Usage, expected));
  Reference reference = take(Reference::load(model, ReferenceOptions()));
  EXPECT_TRUE(failedWith(reference.train(*options.training), ExitCode::Usage, expected));
  options.training->makeOptimizer = nullptr;
  options.training->learningRates.clear();
  EXPECT_TRUE(succeeded(Pipeline::load(artifact, options))) << "the losses alone";
}

TEST(UserOptimizer, OfTheUnsplitModel) {
  const Training how{.schedule = "1f1b", .devices = {}};
  std::string model;
  compileTrained(how, &model);
  ReferenceOptions alone;
  alone.microBatches = 4;
  alone.threads = 1;
  std::vector<ValueTree> states;
  for (const bool isOwn : {true, false}) {
    Reference reference = take(Reference::load(model, alone));
    TrainingOptions options = *withOwn(how).training;
    if (!isOwn) {
      options.makeOptimizer = nullptr;
      options.optimizer = "sgd,lr=0.05,momentum=0.9";
    }
    ASSERT_TRUE(succeeded(reference.train(options)));
    for (int step = 0; step < 3; ++step)
      take(reference.step(trainingBatch()));
    states.push_back(reference.state());
  }
  EXPECT_TRUE(sameBits(states[0].ivalue(), states[1].ivalue()));
}

TEST(UserOptimizer, WhatDoesNotFit) {
  const Training how{.schedule = "1f1b", .devices = {}};
  const std::string artifact = compileTrained(how);
  PipelineOptions options = withOwn(how);
  options.training->optimizer = "sgd,lr=0.1";
  EXPECT_TRUE(failedWith(Pipeline::load(artifact, options), ExitCode::Usage,
                         "makeOptimizer: expected neither optimizer nor groups beside it, got "
                         "sgd,lr=0.1"));
  options.training->optimizer.clear();
  options.training->makeOptimizer = [](const std::string &name) {
    return name == "w3" ? nullptr : std::make_unique<Momentum>();
  };
  EXPECT_TRUE(failedWith(Pipeline::load(artifact, options), ExitCode::Usage,
                         "makeOptimizer: expected an optimizer for parameter w3, got none"));
  struct Throws : ParameterOptimizer {
    void step(const ValueTree &, const ValueTree &, double) override {
      throw std::runtime_error("no more");
    }
  };
  options.training->makeOptimizer = [](const std::string &) { return std::make_unique<Throws>(); };
  Pipeline pipeline = take(Pipeline::load(artifact, options));
  llvm::Expected<TrainedStep> step = pipeline.step(trainingBatch());
  ASSERT_FALSE(bool(step));
  EXPECT_THAT(describe(step.takeError()).message, testing::HasSubstr("no more"));
}

} // namespace
} // namespace pipec
