#include "compiler/planner/PlanTraining.h"

#include "compiler/planner/Bounds.h"
#include "compiler/planner/RecomputeChoices.h"
#include "compiler/planner/TableTraining.h"
#include "ir/plan/ModuleExtent.h"
#include "ir/schedule/ActionTiming.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/OpMemory.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace pipec {

namespace {

constexpr size_t kMostStagesPerRank = 4;    // tried by default
constexpr int64_t kMicroBatchesPerRank = 2; // default, if the batch is not given
constexpr int64_t kMostPerRank = 8;         // micro-batches, unless the request has a number
constexpr int64_t kMostDoubled = 64;        // per rank, of the powers of two
constexpr int64_t kMostListed = 10'000;     // numbers of micro-batches that are looked through

/// With given cuts the number of stages is known.
llvm::Expected<TrainingWishes> withStagesOfCuts(const CostTable &table, TrainingWishes wishes) {
  if (!wishes.cuts)
    return wishes;
  size_t before = 0;
  for (size_t cut : *wishes.cuts) {
    if (cut <= before || cut >= table.rows.size() || table.rows[cut].withPrevious)
      return failf(
          ExitCode::Usage,
          "training plan: expected ascending cuts at possible places, got one before operator {}",
          cut);
    before = cut;
  }
  const size_t stages = wishes.cuts->size() + 1;
  if (wishes.stages && wishes.stages != stages)
    return failf(ExitCode::Usage,
                 "--stages: expected {}, the number that the given cuts make, got {}", stages,
                 wishes.stages);
  wishes.stages = stages;
  return wishes;
}

/// Makes the given places the only ones where a cut is legal.
CostTable cutAsGiven(CostTable table, const std::vector<size_t> &cuts) {
  for (size_t i = 1; i < table.rows.size(); ++i)
    table.rows[i].withPrevious = !llvm::is_contained(cuts, i);
  return table;
}

/// The error of given cuts whose number of stages is no multiple of the number of ranks.
llvm::Error cannotShare(size_t stages, size_t ranks, bool isAsked) {
  const char *why = "training schedules have the same number of stages on every rank";
  if (isAsked)
    return makeError(ExitCode::Usage,
                     fmt::format("--ranks: expected a divisor of {}, the number of stages that the "
                                 "given cuts make, got {}",
                                 stages, ranks),
                     why);
  size_t fewer = ranks;
  while (stages % fewer != 0)
    --fewer;
  return makeError(
      ExitCode::Usage,
      fmt::format("--cluster: expected a number of devices that divides {}, the number of stages "
                  "that the given cuts make, got {}",
                  stages, ranks),
      fmt::format("{}; --ranks {} uses only the first {}", why, fewer, counted(fewer, "device")));
}

llvm::Expected<size_t> ranksOf(const TrainingWishes &wishes) {
  const size_t devices = wishes.cluster ? wishes.cluster->devices.size() : 0;
  const size_t ranks = wishes.ranks    ? wishes.ranks
                       : !devices      ? wishes.stages
                       : wishes.stages ? std::min(wishes.stages, devices)
                                       : devices;
  if (ranks == 0)
    return makeError(ExitCode::Usage, "training plan: expected ranks or stages, got neither",
                     "pass the number of ranks with --ranks");
  if (wishes.cuts && wishes.stages % ranks != 0)
    return cannotShare(wishes.stages, ranks, wishes.ranks != 0);
  if (wishes.stages % ranks != 0)
    return failf(ExitCode::Usage,
                 "--stages: expected a multiple of {}, the number of ranks, got {}", ranks,
                 wishes.stages);
  return ranks;
}

int64_t samplesOf(int64_t batch, int64_t microBatches) {
  return llvm::divideCeil(static_cast<uint64_t>(batch), static_cast<uint64_t>(microBatches));
}

MicroBatching wayOf(int64_t batch, int64_t microBatches, int64_t ofTable) {
  return {microBatches, double(samplesOf(batch, microBatches)) / double(ofTable)};
}

/// The number of micro-batches that have the table's size. The table does not show the cost of
/// smaller ones.
int64_t mostMicroBatches(int64_t batch, int64_t ofTable) { return samplesOf(batch, ofTable); }

/// The least number whose micro-batches are as large; 0: the table does not show their cost.
int64_t worthTrying(int64_t batch, int64_t ofTable, int64_t number) {
  const int64_t samples = samplesOf(batch, number);
  const bool isShown =
      number <= mostMicroBatches(batch, ofTable) && samples >= std::min(batch, ofTable);
  return isShown ? samplesOf(batch, samples) : 0;
}

/// Powers of two, and multiples of the ranks.
std::set<int64_t> numbersToTry(int64_t batch, int64_t ofTable, size_t ranks) {
  const auto p = static_cast<int64_t>(ranks);
  std::set<int64_t> numbers;
  auto add = [&](int64_t number) { numbers.insert(worthTrying(batch, ofTable, number)); };
  for (int64_t m = 1; m <= kMostDoubled * p; m *= 2)
    add(m);
  for (int64_t each = 1; each <= kMostPerRank; ++each)
    add(each * p);
  add(std::min(mostMicroBatches(batch, ofTable), kMostPerRank * p));
  numbers.erase(0);
  return numbers;
}

bool areAll(const std::set<int64_t> &numbers, int64_t batch, int64_t ofTable) {
  const int64_t most = mostMicroBatches(batch, ofTable);
  if (most > kMostListed)
    return false;
  for (int64_t m = 1; m <= most; ++m)
    if (const int64_t number = worthTrying(batch, ofTable, m); number && !numbers.count(number))
      return false;
  return true;
}

struct WaysToCut {
  std::vector<MicroBatching> toTry;
  std::optional<MicroBatching> smallest; // where that are not all
};

llvm::Expected<WaysToCut> waysToCut(const TrainingWishes &wishes, int64_t ofTable, size_t ranks) {
  if (ofTable == 0 && wishes.batch)
    return makeError(ExitCode::Usage,
                     "--batch: expected a cost table with its number of samples, got one without",
                     "pass the number of micro-batches with --microbatches");
  if (wishes.batch && wishes.microBatches > wishes.batch)
    return failf(ExitCode::Usage,
                 "--microbatches: expected at most {}, the samples of --batch, got {}",
                 wishes.batch, wishes.microBatches);
  const int64_t usual = kMicroBatchesPerRank * static_cast<int64_t>(ranks);
  if (wishes.microBatches && !wishes.batch)
    return WaysToCut{{{wishes.microBatches, 1}}, std::nullopt};
  if (ofTable == 0)
    return WaysToCut{{{usual, 1}}, std::nullopt};
  if (wishes.microBatches)
    return WaysToCut{{wayOf(wishes.batch, wishes.microBatches, ofTable)}, std::nullopt};
  const int64_t batch = wishes.batch ? wishes.batch : usual * ofTable;
  const std::set<int64_t> numbers = numbersToTry(batch, ofTable, ranks);
  WaysToCut ways;
  for (int64_t number : numbers)
    ways.toTry.push_back(wayOf(batch, number, ofTable));
  if (!areAll(numbers, batch, ofTable)) {
    const int64_t most = mostMicroBatches(batch, ofTable);
    ways.smallest = {most, double(batch) / double(ofTable) / double(most)};
  }
  return ways;
}

llvm::Expected<JointRequest> requestOf(const CostTable &table, const TrainingWishes &wishes) {
  if (!table.training)
    return makeError(ExitCode::Usage,
                     "training plan: expected a cost table with backward costs, got one without",
                     "pipe-compile --train --emit-costs FILE writes one");
  size_t ranks = TRY(ranksOf(wishes));
  WaysToCut ways = TRY(waysToCut(wishes, table.batch, ranks));
  JointRequest request;
  request.problem.table = wishes.cuts ? cutAsGiven(table, *wishes.cuts) : table;
  request.problem.tied = wishes.tiedByName;
  request.problem.ranks = ranks;
  request.problem.cluster = wishes.cluster ? *wishes.cluster : defaultCluster(ranks);
  request.problem.memoryLimit = wishes.memoryLimit;
  request.problem.splitBackward = wishes.splitBackward;
  request.microBatchings = std::move(ways.toTry);
  request.smallest = ways.smallest;
  request.recompute = wishes.recompute;
  request.tied = wishes.tied;
  request.schedule = wishes.schedule;
  request.enoughPlaces = wishes.enoughPlaces;
  if (wishes.stages)
    request.chunks = {wishes.stages / ranks};
  else
    for (size_t chunks = 1; chunks <= kMostStagesPerRank; ++chunks)
      request.chunks.push_back(chunks);
  return request;
}

std::vector<PlannedStage> stagesOf(const JointRequest &request, const JointOutcome &outcome) {
  const std::vector<CostRow> &rows = request.problem.table.rows;
  const ScheduleCandidate &best = outcome.search.best();
  const std::vector<size_t> &boundaries = outcome.best().boundaries;
  std::vector<PlannedStage> stages;
  std::vector<std::vector<std::string>> modules; // of the rows, per stage
  for (size_t s = 0; s <= boundaries.size(); ++s) {
    PlannedStage &stage = stages.emplace_back();
    stage.rank = best.work->plan.stages[s].rank;
    stage.begin = s ? boundaries[s - 1] : 0;
    stage.end = s < boundaries.size() ? boundaries[s] : rows.size();
    stage.costs = best.work->costs.stages[s];
    stage.recomputed = s < best.recompute.size() && best.recompute[s];
    modules.emplace_back();
    for (size_t i = stage.begin; i < stage.end; ++i) {
      stage.weightBytes += rows[i].weightBytes;
      if (!rows[i].module.empty())
        modules.back().push_back(rows[i].module);
    }
  }
  const std::vector<ModuleExtent> extents = moduleExtents(modules);
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].firstModule = extents[s].first;
    stages[s].lastModule = extents[s].last;
  }
  return stages;
}

/// Simulates the chosen plan once more, for the times of every action; the search kept none.
llvm::Expected<SimulatedRun> layOut(PlannedTraining &plan) {
  plan.program = TRY(lower(plan.schedule, plan.plan, plan.shape));
  SimulatedRun run = TRY(simulate(plan.program, plan.plan, plan.shape, plan.costs));
  plan.timing = actionTiming(plan.schedule, plan.program, run);
  return run;
}

/// If nothing fits, searches again with the smallest micro-batches, which need least memory. Both
/// searches share one time limit.
llvm::Expected<JointOutcome> search(JointRequest &request) {
  constexpr double kSecondsAgain = 1;
  const Deadline clock(request.seconds, TimeCount::Work);
  if (request.smallest)
    request.least = LeastWanted::OfLookedAt;
  llvm::Expected<JointOutcome> outcome = searchJointly(request);
  if (outcome || !request.smallest)
    return outcome;
  ErrorText why = describe(outcome.takeError());
  if (why.code != ExitCode::NoPlan)
    return makeError(why.code, why.message, why.help);
  request.seconds = std::max(kSecondsAgain, clock.limit() - clock.elapsed());
  request.least = LeastWanted::OfAll;
  // Its share rounded up to whole samples.
  const double ofTable = double(request.problem.table.batch);
  request.microBatchings = {{request.smallest->microBatches,
                             std::ceil(request.smallest->share * ofTable - 1e-6) / ofTable}};
  return searchJointly(request);
}

} // namespace

llvm::Expected<PlannedTraining> planTraining(const CostTable &table, const TrainingWishes &asked) {
  TrainingWishes wishes = TRY(withStagesOfCuts(table, asked));
  if (wishes.table)
    TRY(cutForTable(wishes));
  JointRequest request = TRY(requestOf(table, wishes));
  JointOutcome outcome = TRY(search(request));
  const ScheduleCandidate &best = outcome.search.best();
  const TrainingPoint &point = outcome.best();
  PlannedTraining plan;
  plan.scheduleName = best.schedule;
  plan.stages = stagesOf(request, outcome);
  TRY(checkListed(wishes.recompute, plan.stages.size()));
  plan.boundaries = point.boundaries;
  plan.ranks = request.problem.ranks;
  plan.microBatches = point.microBatches;
  plan.samples = static_cast<int64_t>(double(table.batch) * point.share + 0.5);
  const auto isFree = [&](const SharedWeight &weight) {
    return !wishes.tiedByName.count(weight.name);
  };
  if (!best.work->plan.ties.empty() && llvm::any_of(table.shared, isFree))
    plan.tied = point.tied;
  plan.peakBytes = best.needBytes;
  plan.stepNs = *best.step;
  plan.lowerBoundNs = outcome.lowerBound;
  plan.everyCut = outcome.everyCut;
  plan.complete = outcome.search.complete;
  plan.pipelines = outcome.pipelines;
  plan.schedules = outcome.search.candidates.size();
  plan.schedule = outcome.search.schedule;
  plan.plan = best.work->plan;
  plan.shape = best.work->shape;
  plan.shape.recompute = best.recompute;
  plan.costs = best.work->costs;
  for (size_t r = 0; r < plan.ranks; ++r)
    plan.fixedBytes.push_back(best.work->fixed(r));
  if (wishes.table)
    TRY(takeTable(*wishes.table, *best.work, plan));
  llvm::Expected<SimulatedRun> run = layOut(plan);
  if (!run)
    return wishes.table ? withContext(run.takeError(), "--schedule") : run.takeError();
  if (wishes.table)
    TRY(countTable(wishes.memoryLimit, *run, plan));
  plan.timing.peakBytes = plan.peakBytes;
  return plan;
}

llvm::Error keepWhole(llvm::ArrayRef<size_t> stages, PlannedTraining &plan) {
  for (size_t s : stages)
    plan.stages[s].costs = plan.costs.stages[s] = plan.costs.stages[s].unsplit();
  const SimulatedRun run = TRY(layOut(plan));
  plan.stepNs = run.makespan;
  const std::vector<MemoryPeak> peaks =
      memoryPeaks(plan.program, plan.plan, plan.shape, plan.costs);
  for (size_t r = 0; r < plan.ranks; ++r)
    plan.peakBytes[r] = plan.fixedBytes[r] + peaks[r].bytes;
  plan.timing.peakBytes = plan.peakBytes;
  return llvm::Error::success();
}

} // namespace pipec
