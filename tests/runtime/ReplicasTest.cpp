// Replicas of a pipeline: the weights of all stay equal, also after a step that failed.
#include "runtime/Replicas.h"

#include "runtime/Pipeline.h"
#include "runtime/Resources.h"
#include "runtime/RunTrace.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <limits>
#include <set>

namespace pipec {
namespace {

Training twoReplicas(const char *schedule) {
  Training how{.schedule = schedule, .devices = {}};
  how.replicas = 2;
  how.writesState = false;
  return how;
}

/// Of the last replica's last micro-batch.
std::vector<c10::IValue> withInfinity() {
  std::vector<c10::IValue> batch = trainingBatch();
  batch[1].toTensor().select(0, 11).fill_(std::numeric_limits<float>::infinity());
  return batch;
}

TEST(Replicas, AStepAfterAFailedOneIsTheSame) {
  for (const char *schedule : {"1f1b", "zb-v"}) {
    const Training how = twoReplicas(schedule);
    const std::string artifact = compileTrained(how);
    Pipeline good = take(Pipeline::load(artifact, runTrained(how)));
    Pipeline failing = take(Pipeline::load(artifact, runTrained(how)));
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(failedWith(failing.step(withInfinity()), ExitCode::NotFinite,
                             "micro-batch 3: expected a finite loss, got inf"));
      ASSERT_TRUE(succeeded(good.step(trainingBatch())));
      ASSERT_TRUE(succeeded(failing.step(trainingBatch())));
    }
    EXPECT_TRUE(sameBits(good.state().ivalue(), failing.state().ivalue()));
    EXPECT_TRUE(sameBits(good.gradients().ivalue(), failing.gradients().ivalue()));
  }
}

/// A replica that fell behind would change every later gradient.
TEST(Replicas, AnOptimizerPerParameterAndReplica) {
  const Training how = twoReplicas("1f1b");
  PipelineOptions options = runTrained(how);
  options.training->optimizer.clear();
  std::multiset<std::string> made;
  class Halves : public ParameterOptimizer {
    void step(const ValueTree &parameter, const ValueTree &gradient, double) override {
      parameter.ivalue().toTensor().sub_(gradient.ivalue().toTensor(), 0.5);
    }
  };
  options.training->makeOptimizer = [&](const std::string &name) {
    made.insert(name);
    return std::make_unique<Halves>();
  };
  const std::string artifact = compileTrained(how);
  Pipeline replicas = take(Pipeline::load(artifact, options));
  for (int k = 0; k < 6; ++k)
    EXPECT_EQ(made.count(fmt::format("w{}", k)), 2u) << k;
  options.replicas = 1;
  options.microBatches = 4;
  Pipeline one = take(Pipeline::load(artifact, options));
  for (int step = 0; step < 3; ++step) {
    const TrainedStep expected = take(one.step(trainingBatch())),
                      actual = take(replicas.step(trainingBatch()));
    EXPECT_NEAR(expected.loss, actual.loss, 1e-6);
    EXPECT_NEAR(expected.gradientNorm, actual.gradientNorm, 1e-5);
  }
  EXPECT_EQ(replicas.microBatches(), 4);
  EXPECT_EQ(replicas.devices().size(), 8u);
  EXPECT_EQ(take(replicas.trace()).ranks.size(), 8u);
}

TEST(Replicas, OfAnInferenceAreRefused) {
  const std::string directory = scratchPath("small.pipe");
  writeSmallArtifact(directory);
  PipelineOptions options;
  options.replicas = 2;
  EXPECT_TRUE(failedWith(Pipeline::load(directory, options), ExitCode::Usage,
                         "replicas: expected a training, got an inference with 2"));
  options.replicas = -1;
  EXPECT_TRUE(failedWith(Pipeline::load(directory, options), ExitCode::Usage,
                         "replicas: expected at least 1, or 0 for as many as fit, got -1"));
}

TEST(Replicas, AsManyAsFit) {
  const std::vector<std::string> gpus = {"cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4"};
  EXPECT_EQ(replicasThatFit(2, gpus, 0), 2);
  EXPECT_EQ(replicasThatFit(8, gpus, 0), 1);
  EXPECT_EQ(replicasThatFit(1, {"cuda:0"}, 0), 1); // which all ranks share
  EXPECT_EQ(replicasThatFit(1, {}, 0), usableCores());
  EXPECT_EQ(replicasThatFit(1, {"cpu"}, 2), std::max(1, usableCores() / 2));
  EXPECT_EQ(replicasThatFit(2, {"cpu", "cpu", "cpu", "cpu"}, 8), 2);

  const Training how = twoReplicas("1f1b");
  PipelineOptions options = runTrained(how);
  options.replicas = 0;
  options.devices.assign(12, "cpu"); // for 4 ranks
  EXPECT_EQ(take(Pipeline::load(compileTrained(how), options)).replicas(), 3);
}

} // namespace
} // namespace pipec
