#include "tools/report/PlanTiming.h"

#include "ir/costs/Cluster.h"
#include "ir/schedule/ActionTiming.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace pipec {

int64_t forwardNs(const StagePlan &stage) {
  constexpr int64_t kFlopsOfNs = kCoreFlopsPerSecond / 1'000'000'000;
  return stage.costFlops / kFlopsOfNs;
}

namespace {

std::vector<StageCosts> trainingCosts(const Plan &plan) {
  std::vector<StageCosts> stages;
  for (const ExpectedCosts &stage : plan.training->costs)
    stages.push_back(
        {stage.forward, stage.inputGrad, stage.weightGrad, stage.kept, stage.freedByInputGrad});
  if (stages.empty())
    stages.assign(plan.stages.size(),
                  {PlanTiming::kStep, PlanTiming::kStep, PlanTiming::kStep, 0, 0});
  for (size_t s = 0; s < stages.size(); ++s)
    if (!plan.training->whyWhole[s].empty())
      stages[s] = stages[s].unsplit();
    else if (stages[s].inputGrad > 0 && isAllInW(plan, s)) // plans up to 1.5 had times at I there
      stages[s] = stages[s].allInW(receivedGradientBytes(plan, s));
  return stages;
}

/// Of the micro-batch that the costs are of, which may be larger than the example's. Weights keep
/// their size.
std::vector<int64_t> channelBytes(const Plan &plan) {
  const int64_t samples = plan.training->samples, ofExample = plan.signature.batchSize;
  const double share =
      samples > 0 && ofExample > 0 ? double(samples) / double(ofExample) : 1; // as the planner's
  std::vector<int64_t> bytes;
  for (const Channel &channel : plan.channels) {
    const auto ofExampleBytes = double(channel.tensor.bytes);
    bytes.push_back(channel.kind == Channel::Kind::Weight
                        ? channel.tensor.bytes
                        : static_cast<int64_t>(std::ceil(ofExampleBytes * share - 1e-6)));
  }
  return bytes;
}

/// The planner counts it, and plans have it since 1.6.
std::string updateText(const TrainingPlan &training) {
  const bool isCounted =
      llvm::any_of(training.costs, [](const ExpectedCosts &costs) { return costs.optimizer > 0; });
  return isCounted ? ", with an update by AdamW"
                   : ", without the optimizer, whose time this plan does not have";
}

} // namespace

std::string sourceOfTimes(const Plan &plan, const PlanTiming &timing) {
  std::string text = timing.atOnce == 0   ? "the analytic cost model"
                     : timing.atOnce == 1 ? "the times in costs.json"
                                          : fmt::format("measured times, assuming that {} ranks "
                                                        "always run at once",
                                                        timing.atOnce);
  if (plan.training)
    return text + updateText(*plan.training);
  if (timing.atOnce > 1)
    text += " (the compile report counts a stage as faster while other ranks wait)";
  return text;
}

llvm::Expected<PlanTiming> timePlan(const Plan &plan, const Schedule &schedule,
                                    int64_t mostMicroBatches) {
  PlanTiming result;
  result.microBatches = std::min(plan.microBatches, mostMicroBatches);
  for (const std::vector<Action> &actions : schedule.ranks)
    llvm::copy_if(actions, std::back_inserter(result.schedule.ranks.emplace_back()),
                  [&](const Action &a) { return a.microBatch < result.microBatches; });
  RunShape shape;
  shape.microBatches = result.microBatches;
  ProgramCosts costs;
  if (plan.training) {
    shape = trainingShape(plan, result.schedule, result.microBatches, /*optimizer=*/true);
    shape.norm = false; // as in the planner's step
    result.known = !plan.training->costs.empty();
    costs.stages = trainingCosts(plan);
    costs.channelBytes = channelBytes(plan);
    for (const ExpectedCosts &stage : plan.training->costs)
      costs.optimize.push_back(stage.optimizer);
  } else {
    result.known = llvm::any_of(plan.stages, [](const StagePlan &s) { return forwardNs(s) > 0; });
    for (const StagePlan &stage : plan.stages)
      costs.stages.push_back({result.known ? forwardNs(stage) : PlanTiming::kStep, 0, 0, 0, 0});
  }
  for (const StageCosts &stage : costs.stages)
    result.stageNs.push_back(stage.work());
  if (result.known) {
    const ClusterLink link = defaultCluster(1).links.front();
    costs.link = {link.latencyNs, link.bytesPerSecond};
  }
  llvm::Expected<Program> program = lower(result.schedule, plan, shape);
  if (!program)
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  SimulatedRun run = TRY(simulate(*program, plan, shape, costs));
  result.timing = actionTiming(result.schedule, *program, run);
  result.lowerBound = run.lowerBound;
  result.inFlight = run.peakBytes;
  result.costs = std::move(costs.stages);
  return result;
}

} // namespace pipec
