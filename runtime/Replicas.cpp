#include "runtime/Replicas.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "runtime/Resources.h"

#include <algorithm>

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

int64_t replicasThatFit(size_t ranks, const std::vector<std::string> &devices, int threads) {
  int64_t places = usableCores() / std::max(threads, 1);
  if (devices.size() > 1 || (!devices.empty() && devices.front() != "cpu"))
    places = static_cast<int64_t>(devices.size());
  return std::clamp<int64_t>(places / static_cast<int64_t>(ranks), 1, kMostRanks);
}

llvm::Expected<int64_t> replicasOf(const Plan &plan, const PipelineOptions &options) {
  if (options.replicas < 0)
    return failf(ExitCode::Usage, "replicas: expected at least 1, or 0 for as many as fit, got {}",
                 options.replicas);
  if (options.replicas == 1)
    return 1;
  if (!options.training)
    return failf(ExitCode::Usage, "replicas: expected a training, got an inference with {}",
                 options.replicas);
  const int64_t replicas = options.replicas
                               ? options.replicas
                               : replicasThatFit(plan.ranks, options.devices, options.threads);
  if (replicas == 1)
    return 1;
  if (replicas > kMostRanks / static_cast<int64_t>(plan.ranks))
    return failf(ExitCode::Usage, "replicas: expected at most {}, of {} ranks each, got {}",
                 kMostRanks / static_cast<int64_t>(plan.ranks), plan.ranks, replicas);
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
  TRY(checkState(plan));
  return replicas;
}

} // namespace pipec
