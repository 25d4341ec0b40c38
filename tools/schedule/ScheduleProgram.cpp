#include "tools/schedule/ScheduleProgram.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/schedule/ActionTiming.h"
#include "ir/schedule/ClusterCosts.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {
namespace {

Plan planOf(const TableShape &table, size_t ranks, const ScheduleCosts &costs) {
  Plan plan;
  plan.ranks = ranks;
  plan.microBatches = table.microBatches;
  plan.stages.resize(table.stages);
  for (size_t s = 0; s < table.stages; ++s)
    plan.stages[s].rank = table.rankOfStage[s];
  for (size_t s = 0; s + 1 < table.stages; ++s)
    addChannel(plan, s, {s + 1}, 0);
  for (auto [from, to] : costs.skips)
    addChannel(plan, from, {to}, 0);
  return plan;
}

bool hasOp(const Program &program, OpKind kind) {
  return llvm::any_of(program.ranks, [&](const std::vector<Op> &ops) {
    return llvm::any_of(ops, [&](const Op &op) { return op.kind == kind; });
  });
}

} // namespace

Schedule actionsOf(const Program &program) {
  Schedule schedule;
  for (const std::vector<Op> &ops : program.ranks) {
    std::vector<Action> &actions = schedule.ranks.emplace_back();
    for (const Op &op : ops)
      if (isCompute(op.kind))
        actions.emplace_back(actionOf(op.kind), op.stage, op.microBatch);
  }
  return schedule;
}

llvm::Expected<ScheduleProgram> asProgram(const Schedule &schedule, const TableShape &table,
                                          const ScheduleCosts &costs,
                                          const TransferCosts &transfers,
                                          const std::optional<Program> &written) {
  ScheduleProgram result;
  result.plan = planOf(table, schedule.ranks.size(), costs);
  result.shape.microBatches = table.microBatches;
  result.shape.train = table.backward;
  result.shape.optimizer = !transfers.optimizeNs.empty();
  if (table.backward) {
    result.shape.recompute.resize(table.stages);
    takeRecomputes(schedule, result.shape);
  }
  if (written) {
    result.shape.optimizer = hasOp(*written, OpKind::Optimize);
    result.shape.norm = hasOp(*written, OpKind::Norm);
  }
  llvm::Expected<Program> program = written ? *written : lower(schedule, result.plan, result.shape);
  if (!program)
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  result.program = std::move(*program);
  TRY(check(result.program, result.plan, result.shape));
  return result;
}

ProgramCosts programCosts(const Plan &plan, const ScheduleCosts &costs,
                          const TransferCosts &transfers) {
  ProgramCosts all;
  all.stages = costs.stages;
  all.optimize = transfers.optimizeNs;
  Program ways; // between all ranks that may send each other something
  ways.ranks.resize(plan.ranks);
  for (const Channel &channel : plan.channels) {
    all.channelBytes.push_back(
        transfers.valueBytes.empty() ? 0 : transfers.valueBytes[channel.from.stage]);
    for (const PortRef &to : channel.to) {
      const size_t from = plan.stages[channel.from.stage].rank, rank = plan.stages[to.stage].rank;
      ways.lanes.push_back({from, rank});
      ways.lanes.push_back({rank, from});
    }
  }
  all.link = {costs.latency, transfers.bytesPerSecond};
  if (transfers.cluster)
    placeOn(*transfers.cluster, ways, all);
  return all;
}

llvm::Expected<std::pair<Timing, int64_t>> timeProgram(const Schedule &schedule,
                                                       const ScheduleProgram &of,
                                                       const ScheduleCosts &costs,
                                                       const TransferCosts &transfers) {
  const ProgramCosts all = programCosts(of.plan, costs, transfers);
  SimulatedRun run = TRY(simulate(of.program, of.plan, of.shape, all));
  return std::pair(actionTiming(schedule, of.program, run), run.lowerBound);
}

} // namespace pipec
