#include "runtime/Replicas.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"

namespace pipec {

namespace {

constexpr const char *kLeaveOut = "train without replicas";

/// Micro-batches write state in their order, and replicas run theirs at the same time.
llvm::Error checkState(const Plan &plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const StageAttribute &attribute : plan.stages[s].attributes)
      if (attribute.written)
        return makeError(ExitCode::Usage,
                         fmt::format("replicas: expected stages whose state micro-batches only "
                                     "read, got stage {}, which writes {}",
                                     s, attribute.name),
                         kLeaveOut);
  return llvm::Error::success();
}

} // namespace

llvm::Error checkReplicas(const Plan &plan, const PipelineOptions &options) {
  if (options.replicas < 1)
    return failf(ExitCode::Usage, "replicas: expected at least 1, got {}", options.replicas);
  if (options.replicas == 1)
    return llvm::Error::success();
  if (!options.training)
    return failf(ExitCode::Usage, "replicas: expected a training, got an inference with {}",
                 options.replicas);
  if (options.replicas > kMostRanks / static_cast<int64_t>(plan.ranks))
    return failf(ExitCode::Usage, "replicas: expected at most {}, of {} ranks each, got {}",
                 kMostRanks / static_cast<int64_t>(plan.ranks), plan.ranks, options.replicas);
  if (options.dynamic > 0)
    return makeError(ExitCode::Usage,
                     fmt::format("replicas: expected the order of the schedule, got a dynamic one "
                                 "with at most {} micro-batches in flight",
                                 options.dynamic),
                     "leave out --dynamic");
  if (options.training->batchNorm == BatchNorm::Deferred)
    return makeError(ExitCode::Usage,
                     "replicas: expected no batch norm that is deferred, got --batch-norm deferred",
                     kLeaveOut);
  return checkState(plan);
}

} // namespace pipec
