// The state of optimizers by the names of parameters.
#include "ir/values/CompareValues.h"
#include "runtime/Reference.h"
#include "runtime/training/TensorOptimizer.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <gmock/gmock.h>

#include <ATen/ops/ones.h>

namespace pipec {
namespace {

TEST(OptimizerState, IsThatOfTheUnsplitModelByName) {
  const Training how{.schedule = "1f1b", .devices = {}};
  std::string model;
  const std::string artifact = compileTrained(how, &model);
  const PipelineOptions options = runTrained(how);
  ReferenceOptions alone;
  alone.microBatches = options.microBatches;
  alone.threads = 1;
  Reference reference = take(Reference::load(model, alone));
  ASSERT_TRUE(succeeded(reference.train(*options.training)));
  for (int step = 0; step < 2; ++step)
    take(reference.step(trainingBatch()));
  const ValueTree state = [&] {
    Pipeline pipeline = take(Pipeline::load(artifact, options));
    EXPECT_EQ(pipeline.optimizerState().size(), 0u) << "before the first step";
    for (int step = 0; step < 2; ++step)
      take(pipeline.step(trainingBatch()));
    const std::string checkpoints = scratchPath("checkpoints");
    EXPECT_TRUE(succeeded(pipeline.saveCheckpoint(checkpoints)));
    EXPECT_TRUE(
        compare(optimizerStateIn(checkpoints).ivalue(), pipeline.optimizerState().ivalue(), 0, 0)
            .equal)
        << "the files have the same";
    return pipeline.optimizerState();
  }();
  EXPECT_EQ(state.size(), 6u);
  EXPECT_THAT(take(state.at("w0")).paths(),
              testing::UnorderedElementsAre("exp_avg", "exp_avg_sq", "step"));
  // w0 is read by two stages, whose gradients are added in another order.
  EXPECT_TRUE(compare(reference.optimizerState().ivalue(), state.ivalue(), 1e-4, 1e-6).equal);
  for (const char *name : {"w1", "w2", "w3", "w4", "w5"})
    EXPECT_EQ(take(state.tensorAt(std::string(name) + ".exp_avg")).shape,
              (std::vector<int64_t>{16, 16}));
}

/// A pipeline that has gone on returns to a checkpoint of its own: of before the first step, where
/// there is no state, and of after it.
TEST(OptimizerState, IsThatOfAnEarlierCheckpointAfterAResume) {
  Training how{.schedule = "1f1b", .devices = {}};
  how.optimizer = "adam,lr=0.01";
  const std::string artifact = compileTrained(how);
  PipelineOptions options = runTrained(how);
  options.training->learningRates = "step,every=2,gamma=0.5";
  for (int64_t before : {0, 1}) {
    SCOPED_TRACE(fmt::format("{} steps before the checkpoint", before));
    const std::string checkpoints = scratchPath("earlier.checkpoints");
    Pipeline pipeline = take(Pipeline::load(artifact, options));
    for (int64_t step = 0; step < before + 2; ++step) {
      if (step == before) {
        ASSERT_TRUE(succeeded(pipeline.saveCheckpoint(checkpoints)));
      }
      take(pipeline.step(trainingBatch()));
    }
    Pipeline fresh = take(Pipeline::load(artifact, options));
    for (Pipeline *each : {&pipeline, &fresh}) {
      EXPECT_EQ(take(each->resume(checkpoints)).step, before);
      EXPECT_EQ(each->optimizerState().size(), before ? 6u : 0u);
    }
    EXPECT_TRUE(sameBits(fresh.state().ivalue(), pipeline.state().ivalue()));
    for (int step = 0; step < 3; ++step) {
      const TrainedStep expected = take(fresh.step(trainingBatch()));
      const TrainedStep found = take(pipeline.step(trainingBatch()));
      EXPECT_EQ(found.loss, expected.loss) << step;
      EXPECT_EQ(found.learningRate, expected.learningRate) << step;
      EXPECT_TRUE(sameBits(fresh.gradients().ivalue(), pipeline.gradients().ivalue())) << step;
    }
    EXPECT_TRUE(sameBits(fresh.state().ivalue(), pipeline.state().ivalue()));
    EXPECT_TRUE(sameBits(fresh.optimizerState().ivalue(), pipeline.optimizerState().ivalue()));
  }
}

TEST(OptimizerState, ThereIsNoneWithoutAnOptimizer) {
  Training how{.schedule = "1f1b", .devices = {}};
  how.optimizer = "";
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  take(pipeline.step(trainingBatch()));
  EXPECT_EQ(pipeline.optimizerState().size(), 0u);
}

TEST(OptimizerState, OfAnotherOptimizerIsRefusedAndChangesNothing) {
  const std::unique_ptr<TensorOptimizer> optimizer =
      makeTensorOptimizer(take(parseOptimizer("adam,lr=0.1")));
  const at::Tensor ones = at::ones({2});
  const OptimizerState good = {{"exp_avg", ones}, {"exp_avg_sq", ones}, {"step", 3}};
  ASSERT_TRUE(succeeded(optimizer->setState(good)));
  EXPECT_TRUE(failedWith(optimizer->setState({{"momentum_buffer", ones}}), ExitCode::BadArtifact,
                         "expected step of the optimizer, got none"));
  EXPECT_TRUE(failedWith(optimizer->setState({{"exp_avg", ones}, {"step", 4}}),
                         ExitCode::BadArtifact, "expected exp_avg_sq of the optimizer, got none"));
  EXPECT_TRUE(failedWith(optimizer->setState({{"exp_avg", 1}, {"exp_avg_sq", ones}, {"step", 4}}),
                         ExitCode::BadArtifact,
                         "exp_avg of the optimizer: expected a tensor, got a Int"));
  EXPECT_TRUE(failedWith(optimizer->setState({{"step", 1.5}}), ExitCode::BadArtifact,
                         "step of the optimizer: expected an integer, got a Double"));
  EXPECT_EQ(optimizer->state().back().second.toInt(), 3);
}

} // namespace
} // namespace pipec
