#include "tools/schedule/ScheduleBound.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "tools/report/Table.h"

namespace pipec {
namespace {

constexpr size_t kMostChunks = 4; // stages per rank that are tried where none are given

StagedWork workOf(const TrialRequest &asked, const AutoShape &shape, size_t chunks,
                  Placement placement) {
  StagedWork work;
  work.placement = placement;
  work.chunks = chunks;
  work.plan = sketchPlan(rankOfStages(placement, shape.ranks, chunks), Mode::Train);
  const ScheduleCosts costs = asked.costs.of(shape.ranks, chunks);
  for (size_t s = 0; s + 1 < shape.ranks * chunks; ++s)
    addChannel(work.plan, s, {s + 1}, 0);
  for (auto [from, to] : costs.skips)
    addChannel(work.plan, from, {to}, 0);
  work.shape.train = true;
  work.shape.microBatches =
      asked.microBatches ? asked.microBatches : 2 * static_cast<int64_t>(shape.ranks);
  const TransferCosts transfers =
      asked.costs.transfers(rankOfStages(placement, shape.ranks, chunks));
  work.shape.optimizer = !transfers.optimizeNs.empty();
  work.costs = programCosts(work.plan, costs, transfers);
  if (asked.memoryLimit < std::numeric_limits<int64_t>::max())
    work.limitBytes.assign(shape.ranks, asked.memoryLimit);
  return work;
}

} // namespace

llvm::Expected<AutoShape> autoShape(const TrialRequest &asked) {
  const size_t stages = TRY(requestedStages(asked));
  AutoShape shape;
  shape.ranks = ranksFor(asked, stages, /*chunks=*/1);
  if (stages % shape.ranks != 0)
    return failf(ExitCode::Usage,
                 "--stages: expected a multiple of {}, the number of ranks, got {}", shape.ranks,
                 stages);
  if (stages)
    shape.chunks.push_back(stages / shape.ranks);
  else
    for (size_t chunks = 1; chunks <= kMostChunks; ++chunks)
      shape.chunks.push_back(chunks);
  return shape;
}

std::vector<StagedWork> worksOf(const TrialRequest &asked, const AutoShape &shape) {
  std::vector<StagedWork> works;
  for (size_t chunks : shape.chunks)
    for (Placement placement : {Placement::Loop, Placement::V})
      if (placement == Placement::Loop || chunks == 2)
        works.push_back(workOf(asked, shape, chunks, placement));
  return works;
}

llvm::Expected<StepBound> stepBound(const TrialRequest &asked) {
  AutoShape shape = TRY(autoShape(asked));
  StepBound bound;
  bound.fewestChunks = shape.chunks.front();
  bound.mostChunks = shape.chunks.back();
  for (const StagedWork &work : worksOf(asked, shape)) {
    const int64_t least = lowerBoundOf(work);
    bound.time = bound.time ? std::min(bound.time, least) : least;
  }
  return bound;
}

std::string stepBoundText(const StepBound &bound) {
  const std::string chunks =
      bound.fewestChunks == bound.mostChunks
          ? counted(bound.mostChunks, "stage")
          : fmt::format("{} to {} stages", bound.fewestChunks, bound.mostChunks);
  return fmt::format("above bound: how much longer than {}, the lower bound of every schedule of "
                     "these ranks and micro-batches with {} per rank",
                     formatDuration(bound.time), chunks);
}

std::string aboveBoundText(int64_t time, int64_t bound) {
  return bound ? fmt::format("{:.1f} %", 100 * double(time - bound) / double(bound)) : "-";
}

TrialKind kindOf(const Trial &trial) {
  return {trial.ranks(), trial.shape->microBatches, trial.shape->backward};
}

std::map<TrialKind, StepBound> boundsOf(const std::vector<Trial> &trials,
                                        const TrialRequest &request) {
  std::map<TrialKind, StepBound> bounds;
  for (const Trial &trial : trials) {
    if (!trial.timing)
      continue;
    auto [at, isNew] = bounds.try_emplace(kindOf(trial));
    StepBound &bound = at->second;
    if (isNew && trial.shape->backward) {
      TrialRequest alike = request;
      alike.ranks = trial.ranks();
      alike.microBatches = trial.shape->microBatches;
      if (llvm::Expected<StepBound> ofAll = stepBound(alike))
        bound = *ofAll;
      else
        llvm::consumeError(ofAll.takeError()); // a table of its own: its own bound is left
    }
    // A table may have more stages, and a pair's halves may share their time.
    bound.time = bound.time ? std::min(bound.time, trial.lowerBound) : trial.lowerBound;
  }
  return bounds;
}

} // namespace pipec
