#include "compiler/planner/StagedWork.h"

#include "ir/schedule/ProgramCosts.h"
#include "ir/support/Error.h"

#include <algorithm>
#include <set>

namespace pipec {

namespace {

std::vector<size_t> ranksOfStages(const Plan &plan) {
  std::vector<size_t> ranks;
  for (const StagePlan &stage : plan.stages)
    ranks.push_back(stage.rank);
  return ranks;
}

/// Every stage waits for the one before it, and in a training for the gradient of the one after it:
/// a bound that counts these hops holds.
bool isChain(const StagedWork &work) {
  std::set<size_t> waits; // stages that do
  for (const Channel &channel : work.plan.channels)
    for (const PortRef &to : channel.to)
      if (channel.kind == Channel::Kind::Activation && to.stage == channel.from.stage + 1 &&
          (!work.shape.train || channel.tensor.requiresGrad))
        waits.insert(to.stage);
  return waits.size() + 1 >= work.plan.stages.size();
}

} // namespace

llvm::Error checkWork(const StagedWork &work) {
  const size_t stages = work.plan.stages.size();
  if (work.costs.stages.size() != stages)
    return failf(ExitCode::Usage, "search: expected the costs of {} stages, got {}", stages,
                 work.costs.stages.size());
  if (rankOfStages(work.placement, work.plan.ranks, work.chunks) != ranksOfStages(work.plan))
    return failf(ExitCode::Usage, "search: expected {} stages per rank in their usual places",
                 work.chunks);
  for (const std::vector<int64_t> *bytes : {&work.fixedBytes, &work.limitBytes})
    if (!bytes->empty() && bytes->size() != work.plan.ranks)
      return failf(ExitCode::Usage, "search: expected the memory of {} ranks, got {}",
                   work.plan.ranks, bytes->size());
  return llvm::Error::success();
}

ScheduleCosts tableCosts(const StagedWork &work, const std::vector<bool> &recompute) {
  ScheduleCosts costs;
  costs.stages = work.costs.stages;
  for (size_t s = 0; s < recompute.size(); ++s) {
    if (!recompute[s])
      continue;
    StageCosts &stage = costs.stages[s];
    if (work.shape.kept.empty()) // the last micro-batch may be the one that decides
      stage.inputGrad += work.costs.recompute.empty() ? stage.forward : work.costs.recompute[s];
    const int64_t kept = work.costs.keptToRecompute.empty() ? 0 : work.costs.keptToRecompute[s];
    // The input gradient first makes the rest once more, of which W may need more than F kept.
    stage.freedByInputGrad -= stage.heldByForward - kept;
    stage.heldByForward = kept;
  }
  std::optional<int64_t> fastest;
  for (size_t c = 0; c < work.plan.channels.size(); ++c) {
    const Channel &channel = work.plan.channels[c];
    if (channel.kind != Channel::Kind::Activation)
      continue;
    for (const PortRef &to : channel.to) {
      const size_t from = work.plan.stages[channel.from.stage].rank,
                   rank = work.plan.stages[to.stage].rank;
      if (to.stage > channel.from.stage + 1)
        costs.skips.emplace_back(channel.from.stage, to.stage);
      if (from == rank)
        continue;
      const LinkCosts &way = work.costs.between(from, rank);
      const int64_t hop = way.latency + way.transferNs(work.costs.bytesOf(work.plan, c));
      fastest = std::min(fastest.value_or(hop), hop);
    }
  }
  costs.latency = fastest.value_or(0);
  return costs;
}

int64_t lowerBoundOf(const StagedWork &work) {
  RunShape shape = work.shape;
  shape.recompute.clear();
  const int64_t bound = runLowerBound(work.plan, shape, work.costs);
  if (!isChain(work))
    return bound;
  return std::max(bound, makespanLowerBound(tableCosts(work, {}), ranksOfStages(work.plan),
                                            work.plan.ranks, shape.microBatches, !shape.train));
}

} // namespace pipec
