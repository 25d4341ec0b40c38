#include "runtime/SplitCheck.h"

#include "ir/autograd/StateVersions.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/support/Try.h"
#include "ir/values/CompareValues.h"
#include "runtime/SameDraws.h"

#include <ATen/ops/ones.h>

namespace pipec {

namespace {

llvm::Expected<TrainedMicroBatch> trained(const Artifact &artifact,
                                          const std::vector<c10::IValue> &microBatch,
                                          const std::vector<bool> &split) {
  SerialTrainer trainer =
      TRY(SerialTrainer::load(artifact.directory, artifact.plan, {split, {}, false}));
  const SameDraws draws;
  return trainer.run(copiesThatShare(microBatch), artifact.plan.training->loss, at::ones({}));
}

bool isSame(const at::Tensor &a, const at::Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  return compare(a, b, 0.0, 0.0).equal;
}

} // namespace

llvm::Error compareBackwards(const Plan &plan, const TrainedMicroBatch &whole,
                             const TrainedMicroBatch &split) {
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a) {
      const ValueGradients &expected = whole.gradients[s][a], &found = split.gradients[s][a];
      bool same = expected.size() == found.size();
      for (size_t t = 0; same && t < expected.size(); ++t)
        same = isSame(expected[t], found[t]);
      if (!same)
        return makeError(ExitCode::Mismatch,
                         fmt::format("--verify run: stage {}: expected the gradient of {} that the "
                                     "whole backward has, got another one from I and W",
                                     s, plan.stages[s].attributes[a].name),
                         "train with a schedule whose backwards are whole, such as 1f1b");
    }
  return llvm::Error::success();
}

llvm::Error checkSplitBackwards(const Artifact &artifact,
                                const std::vector<c10::IValue> &microBatch) {
  const TrainingPlan &plan = *artifact.plan.training;
  std::vector<bool> split;
  for (const std::string &why : plan.whyWhole)
    split.push_back(why.empty());
  const TrainingSettings settings;
  llvm::Expected<TrainedMicroBatch> whole =
      trained(artifact, microBatch, std::vector<bool>(split.size(), false));
  if (!whole)
    return withContext(whole.takeError(), "--verify run");
  llvm::Expected<TrainedMicroBatch> parts = trained(artifact, microBatch, split);
  if (!parts)
    return withContext(parts.takeError(), "--verify run");
  return compareBackwards(artifact.plan, *whole, *parts);
}

} // namespace pipec
