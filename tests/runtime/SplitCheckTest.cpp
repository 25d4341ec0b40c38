// I and W against B: equal as they are, and any other bit of any weight's gradient is found.
#include "runtime/SplitCheck.h"

#include "ir/autograd/TrainingSettings.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

namespace pipec {
namespace {

TEST(SplitCheck, findsEveryGradientThatDiffers) {
  Training how;
  how.schedule = "zb-h1";
  const Artifact artifact = take(openArtifact(compileTrained(how)));
  const Plan &plan = artifact.plan;
  EXPECT_FALSE(static_cast<bool>(checkSplitBackwards(artifact, trainingBatch())));
  const TrainingSettings settings;
  const std::vector<bool> none(plan.stages.size(), false);
  SerialTrainer trainer = take(SerialTrainer::load(artifact.directory, plan, {none, {}, false}));
  const TrainedMicroBatch whole =
      take(trainer.run(trainingBatch(), plan.training->loss, at::ones({})));
  EXPECT_FALSE(static_cast<bool>(compareBackwards(plan, whole, whole)));
  size_t found = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a)
      for (size_t t = 0; t < whole.gradients[s][a].size(); ++t) {
        TrainedMicroBatch changed = whole;
        at::Tensor &gradient = changed.gradients[s][a][t];
        if (!gradient.defined())
          continue;
        ++found;
        gradient = gradient.clone();
        gradient.view({-1})[0].mul_(2);
        if (gradient.equal(whole.gradients[s][a][t])) // it was zero
          gradient.view({-1})[0].add_(1);
        const ErrorText error = describe(compareBackwards(plan, whole, changed));
        EXPECT_EQ(error.code, ExitCode::Mismatch);
        EXPECT_NE(error.message.find(plan.stages[s].attributes[a].name), std::string::npos);
        gradient = at::Tensor();
        EXPECT_EQ(describe(compareBackwards(plan, whole, changed)).code, ExitCode::Mismatch);
      }
  EXPECT_GE(found, plan.stages.size());
}

TEST(SerialStages, copiesTrainAsTheFilesDo) {
  const Artifact artifact = take(openArtifact(compileTrained(Training())));
  const Plan &plan = artifact.plan;
  const SerialWay way{std::vector<bool>(plan.stages.size(), false), {}, false};
  const TrainingSettings settings;
  auto train = [&](SerialTrainer trainer) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(0); // of the dropouts
    return take(trainer.run(trainingBatch(), plan.training->loss, at::ones({})));
  };
  const TrainedMicroBatch expected =
      train(take(SerialTrainer::load(artifact.directory, plan, way)));
  const SerialStages stages = take(SerialStages::load(artifact.directory, plan));
  for (int copy = 0; copy < 2; ++copy) {
    const TrainedMicroBatch found = train(SerialTrainer(plan, take(stages.copy()), way));
    EXPECT_EQ(describe(compareBackwards(plan, expected, found)).message, "");
  }
}

} // namespace
} // namespace pipec
