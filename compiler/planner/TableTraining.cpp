#include "compiler/planner/TableTraining.h"

#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/OpMemory.h"
#include "ir/schedule/TableCheck.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

namespace pipec {

namespace {

/// A schedule that takes any number of micro-batches; empty: none has these places.
std::string scheduleWithPlaces(const std::vector<size_t> &rankOfStage, size_t ranks) {
  const size_t chunks = rankOfStage.size() / ranks;
  if (chunks == 0 || rankOfStage.size() != ranks * chunks)
    return "";
  if (rankOfStages(Placement::Loop, ranks, chunks) == rankOfStage)
    return chunks == 1 ? "1f1b" : "looped-bfs";
  return chunks == 2 && rankOfStages(Placement::V, ranks, chunks) == rankOfStage ? "zb-v" : "";
}

/// What `work` holds all the time, on the table's ranks.
std::vector<int64_t> fixedBytes(const StagedWork &work, const PlannedTraining &plan) {
  std::vector<int64_t> bytes(plan.ranks, 0);
  const bool isSame = work.plan.ranks == plan.ranks; // otherwise it has a rank for every stage
  for (size_t r = 0; r < work.plan.ranks; ++r)
    bytes[isSame ? r : plan.stages[r].rank] += work.fixed(r);
  return bytes;
}

} // namespace

llvm::Error cutForTable(TrainingWishes &wishes) {
  const TableShape shape = TRY(checkTable(*wishes.table, nullptr));
  const size_t ranks = wishes.table->ranks.size();
  if (wishes.cuts && wishes.cuts->size() + 1 != shape.stages)
    return failf(ExitCode::Usage, "--schedule: expected a table of {}, as the cuts make, got {}",
                 counted(wishes.cuts->size() + 1, "stage"), shape.stages);
  wishes.stages = shape.stages;
  wishes.ranks = ranks;
  wishes.schedule = scheduleWithPlaces(shape.rankOfStage, ranks);
  if (!wishes.schedule.empty())
    return llvm::Error::success();
  if (wishes.cluster)
    return makeError(ExitCode::Usage,
                     "--cluster: expected a table that has the stages in their usual places, once "
                     "or more often around the ranks or there and back, got another one",
                     "leave --cluster out");
  wishes.schedule = "1f1b";
  wishes.ranks = shape.stages;
  return llvm::Error::success();
}

llvm::Error takeTable(const Schedule &table, const StagedWork &work, PlannedTraining &plan) {
  const TableShape shape = TRY(checkTable(table, nullptr));
  plan.scheduleName = "table";
  plan.schedule = table;
  plan.schedules = 1;
  plan.ranks = plan.plan.ranks = table.ranks.size();
  plan.shape.recompute.resize(shape.stages);
  takeRecomputes(table, plan.shape);
  for (size_t s = 0; s < shape.stages; ++s) {
    plan.stages[s].rank = plan.plan.stages[s].rank = shape.rankOfStage[s];
    plan.stages[s].recomputed = plan.shape.recompute[s];
  }
  if (plan.costs.deviceOfRank.size() > plan.ranks)
    plan.costs.deviceOfRank.resize(plan.ranks);
  plan.fixedBytes = fixedBytes(work, plan);
  return llvm::Error::success();
}

llvm::Error countTable(int64_t memoryLimit, const SimulatedRun &run, PlannedTraining &plan) {
  plan.stepNs = run.makespan;
  plan.lowerBoundNs = run.lowerBound;
  plan.peakBytes = plan.fixedBytes;
  const std::vector<MemoryPeak> peaks =
      memoryPeaks(plan.program, plan.plan, plan.shape, plan.costs);
  for (size_t r = 0; r < plan.ranks; ++r) {
    plan.peakBytes[r] += peaks[r].bytes;
    if (memoryLimit && plan.peakBytes[r] > memoryLimit)
      return makeError(ExitCode::NoPlan,
                       fmt::format("--memory-limit: rank {} needs {} under the table, the limit is "
                                   "{}",
                                   r, formatBytes(plan.peakBytes[r]), formatBytes(memoryLimit)),
                       "pass a larger limit, or --recompute always");
  }
  return llvm::Error::success();
}

} // namespace pipec
