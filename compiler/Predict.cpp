#include "compiler/Predict.h"

#include "compiler/MeasureCosts.h"
#include "ir/schedule/Timing.h"

#include <algorithm>

namespace pipec {

namespace {

/// Values are sent beside each other, so the slowest one counts.
int64_t hopOf(const Plan &plan, const Cluster &cluster) {
  auto device = [&](size_t stage) -> llvm::StringRef {
    return cluster.devices[plan.stages[stage].rank % cluster.devices.size()].name;
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

} // namespace

llvm::Error predict(CompileReport &report, const Cluster &cluster) {
  const Plan &plan = report.plan;
  ScheduleCosts costs;
  ScheduleShape shape;
  shape.stages = plan.stages.size();
  shape.ranks = plan.ranks;
  shape.microBatches = plan.microBatches;
  for (const StagePlan &stage : plan.stages) {
    costs.stages.push_back({stage.costFlops / kFlopsPerNs, 0, 0, 0, 0});
    shape.rankOfStage.push_back(stage.rank);
    report.prediction.forwardNs.push_back(stage.costFlops / kFlopsPerNs);
  }
  costs.latency = hopOf(plan, cluster);
  llvm::Expected<Timing> timing = timeSchedule(forwardOnly(shape), costs);
  if (!timing)
    return timing.takeError();
  report.prediction.known = true;
  report.prediction.stepNs = timing->makespan;
  report.prediction.bubble = timing->bubbleMakespan();
  return llvm::Error::success();
}

} // namespace pipec
