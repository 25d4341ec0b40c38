#include "compiler/cost/Predict.h"

#include "compiler/cost/MeasureCosts.h"
#include "compiler/cost/SharedTime.h"
#include "compiler/planner/ForwardSearch.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/Timing.h"
#include "ir/support/Try.h"

#include <algorithm>

namespace pipec {

namespace {

/// Values are sent in parallel, so the slowest one counts.
int64_t hopOf(const Plan &plan, const Cluster &cluster) {
  auto device = [&](size_t stage) -> llvm::StringRef {
    return cluster.deviceOfRank(plan.stages[stage].rank).name;
  };
  int64_t hop = 0;
  for (const Channel &channel : plan.channels)
    if (channel.kind == Channel::Kind::Activation)
      for (const PortRef &to : channel.to)
        if (plan.stages[to.stage].rank != plan.stages[channel.from.stage].rank)
          hop = std::max(hop, cluster.linkBetween(device(channel.from.stage), device(to.stage))
                                  .nanoseconds(channel.tensor.known ? channel.tensor.bytes : 0));
  return hop;
}

/// The part of a stage's time that remains while no other rank runs.
double aloneShare(const CostTable &table, const std::vector<size_t> &boundaries, size_t stage) {
  const bool known = stage < boundaries.size() + 1 && !boundaries.empty();
  const size_t begin = known && stage > 0 ? boundaries[stage - 1] : 0;
  const size_t end = known && stage < boundaries.size() ? boundaries[stage] : table.rows.size();
  const CostRow sum = table.sum(begin, end);
  return sum.forwardNs > 0 ? static_cast<double>(sum.aloneNs()) / static_cast<double>(sum.forwardNs)
                           : 1;
}

const ClusterDevice &deviceOfStage(const Plan &plan, const Cluster &cluster, size_t stage) {
  return cluster.deviceOfRank(plan.stages[stage].rank);
}

/// For ranks that share a device and take turns: uses the simulator of programs.
llvm::Error predictTurns(CompileReport &report, const Cluster &cluster, const Schedule &schedule) {
  const Plan &plan = report.plan;
  RunShape run;
  run.microBatches = plan.microBatches;
  std::vector<int64_t> stageNs;
  for (const StagePlan &stage : plan.stages)
    stageNs.push_back(stage.costFlops / kFlopsPerNs);
  Program program = TRY(lower(schedule, plan, run));
  SimulatedRun simulated =
      TRY(simulate(program, plan, run, forwardCosts(plan, program, stageNs, cluster), false));
  std::vector<int64_t> busy(cluster.devices.size(), 0);
  for (size_t rank = 0; rank < simulated.busy.size(); ++rank)
    busy[rank % busy.size()] += simulated.busy[rank];
  report.prediction.stepNs = simulated.makespan;
  report.prediction.bubble = 1 - static_cast<double>(*std::max_element(busy.begin(), busy.end())) /
                                     static_cast<double>(std::max<int64_t>(1, simulated.makespan));
  return llvm::Error::success();
}

} // namespace

llvm::Error predict(CompileReport &report, const Cluster &cluster, const CostTable &table,
                    const std::vector<size_t> &boundaries, const Schedule &schedule) {
  const Plan &plan = report.plan;
  ScheduleCosts costs;
  std::vector<SharedStage> shared;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    // Costs are those of the slowest rates in the cluster.
    const auto ns =
        static_cast<int64_t>(static_cast<double>(plan.stages[s].costFlops / kFlopsPerNs) *
                             slowness(cluster, deviceOfStage(plan, cluster, s)));
    costs.stages.push_back({ns, 0, 0, 0, 0});
    report.prediction.forwardNs.push_back(ns);
    shared.push_back(
        {static_cast<int64_t>(static_cast<double>(ns) * aloneShare(table, boundaries, s)), ns});
  }
  costs.latency = hopOf(plan, cluster);
  Timing timing = TRY(timeSchedule(schedule, costs));
  report.prediction.known = true;
  report.prediction.stepNs = timing.makespan;
  report.prediction.bubble = timing.bubbleMakespan();
  if (table.atOnce <= 1 && plan.ranks > cluster.devices.size())
    return predictTurns(report, cluster, schedule);
  if (table.atOnce > 1) {
    const SharedStep step = timeShared(schedule, shared, costs.latency, table.atOnce);
    report.prediction.stepNs = step.makespan;
    report.prediction.bubble = 1 - static_cast<double>(step.busiest) /
                                       static_cast<double>(std::max<int64_t>(1, step.makespan));
  }
  return llvm::Error::success();
}

} // namespace pipec
