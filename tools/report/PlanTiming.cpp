#include "tools/report/PlanTiming.h"

#include "ir/plan/Cluster.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

int64_t forwardNs(const StagePlan &stage) {
  constexpr int64_t kFlopsOfNs = kCoreFlopsPerSecond / 1'000'000'000;
  return stage.costFlops / kFlopsOfNs;
}

std::string whatTimesRestOn(const PlanTiming &timing) {
  if (timing.atOnce == 0)
    return "the analytic cost model";
  if (timing.atOnce == 1)
    return "the times in costs.json";
  return fmt::format("measured times, assuming that {} ranks always run at once (the compile "
                     "report counts a stage as faster while other ranks wait)",
                     timing.atOnce);
}

llvm::Expected<PlanTiming> timePlan(const Plan &plan, const Schedule &schedule,
                                    int64_t mostMicroBatches) {
  PlanTiming result;
  result.microBatches = std::min(plan.microBatches, mostMicroBatches);
  for (const std::vector<Action> &actions : schedule.ranks)
    llvm::copy_if(actions, std::back_inserter(result.schedule.ranks.emplace_back()),
                  [&](const Action &a) { return a.microBatch < result.microBatches; });
  result.known = llvm::any_of(plan.stages, [](const StagePlan &s) { return forwardNs(s) > 0; });
  ProgramCosts costs;
  for (const StagePlan &stage : plan.stages) {
    result.stageNs.push_back(result.known ? forwardNs(stage) : PlanTiming::kStep);
    costs.stages.push_back({result.stageNs.back(), 0, 0, 0, 0});
  }
  if (result.known) {
    const ClusterLink link = defaultCluster(1).links.front();
    costs.link = {link.latencyNs, link.bytesPerSecond};
  }
  RunShape shape;
  shape.microBatches = result.microBatches;
  llvm::Expected<Program> program = lower(result.schedule, plan, shape);
  if (!program)
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  SimulatedRun run = TRY(simulate(*program, plan, shape, costs));
  result.timing = actionTiming(result.schedule, *program, run);
  result.lowerBound = run.lowerBound;
  result.inFlight = run.peakBytes;
  return result;
}

} // namespace pipec
