#include "tools/ScheduleAuto.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/plan/Words.h"
#include "tools/ScheduleReport.h"
#include "tools/Table.h"

namespace pipec {
namespace {

constexpr size_t kMostChunks = 4; // stages per rank that are tried where none are given
constexpr size_t kUsualRanksOfAuto = 4;

/// Ranks, and the numbers of stages per rank to try.
struct AutoShape {
  size_t ranks = 0;
  std::vector<size_t> chunks;
};

llvm::Expected<AutoShape> autoShape(const TrialRequest &asked) {
  llvm::Expected<size_t> said = stagesAsked(asked);
  if (!said)
    return said.takeError();
  const size_t stages = *said;
  AutoShape shape;
  shape.ranks = asked.ranks ? asked.ranks : stages ? stages : kUsualRanksOfAuto;
  if (stages % shape.ranks != 0)
    return failf(ExitCode::Usage, "--stages: expected a multiple of {} ranks, got {}", shape.ranks,
                 stages);
  if (stages)
    shape.chunks.push_back(stages / shape.ranks);
  else
    for (size_t chunks = 1; chunks <= kMostChunks; ++chunks)
      shape.chunks.push_back(chunks);
  return shape;
}

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

std::string aboveBoundText(int64_t time, int64_t bound) {
  return bound ? fmt::format("{:.1f} %", 100 * double(time - bound) / double(bound)) : "-";
}

} // namespace

llvm::Expected<AutoTrial> searchSchedules(const TrialRequest &asked) {
  if (asked.pairs != PairRule::Split)
    return makeError(ExitCode::Usage, "auto: expected --pairs split, got another",
                     "programs run a pair one after the other; name a schedule instead of auto");
  llvm::Expected<AutoShape> shape = autoShape(asked);
  if (!shape)
    return shape.takeError();
  SearchOptions options;
  options.recompute = RecomputeChoice::Never;
  options.memoryText =
      asked.costs.inBytes ? formatBytes : [](int64_t memory) { return memoryText(memory, false); };
  ScheduleSearch search(options);
  for (size_t chunks : shape->chunks)
    for (Placement placement : {Placement::Loop, Placement::V}) {
      if (placement == Placement::V && chunks != 2)
        continue;
      if (llvm::Error error = search.add(workOf(asked, *shape, chunks, placement)))
        return std::move(error);
    }
  llvm::Expected<SearchOutcome> outcome = search.take();
  if (!outcome)
    return outcome.takeError();
  // Once more, as the search did: every way to a schedule is judged and drawn the same.
  TrialRequest again = asked;
  again.timeAsProgram = true;
  again.ranks = shape->ranks;
  again.stages = shape->ranks * outcome->best().work->chunks;
  llvm::Expected<Trial> trial = tryMade(outcome->best().schedule, outcome->schedule, again);
  if (!trial)
    return trial.takeError();
  return AutoTrial{std::move(*trial), std::move(*outcome)};
}

void printCandidates(llvm::raw_ostream &out, const SearchOutcome &outcome, bool inBytes) {
  Table table({{"schedule"},
               {"stages", Table::Right},
               {"step time", Table::Right},
               {"above bound", Table::Right},
               {"peak of activations", Table::Right},
               {"possible"}});
  for (const ScheduleCandidate &candidate : outcome.candidates) {
    std::vector<std::string> row = {candidate.schedule,
                                    std::to_string(candidate.work->plan.stages.size())};
    if (candidate.valid()) {
      const int64_t time = candidate.step.value_or(candidate.atLeast);
      row.push_back((candidate.step ? "" : "at least ") + formatDuration(time));
      row.push_back(aboveBoundText(time, outcome.lowerBound));
    } else {
      row.insert(row.end(), 2, "-");
    }
    row.push_back(candidate.needBytes.empty() ? "-" : memoryText(candidate.mostBytes(), inBytes));
    row.push_back(candidate.valid() ? "yes" : "no: " + candidate.why.message);
    table.addRow(std::move(row));
  }
  table.print(out);
  if (!outcome.complete)
    out << "time was up before every schedule was tried\n";
}

llvm::json::Object autoJson(const AutoTrial &found, bool inBytes) {
  llvm::json::Object document = trialJson(found.trial, inBytes);
  document["schedule"] = found.outcome.best().schedule;
  document["gap"] = found.outcome.gap();
  document["complete"] = found.outcome.complete; // false: time was up
  document["search_lower_bound_ms"] = inMilliseconds(found.outcome.lowerBound);
  llvm::json::Array rows;
  for (const ScheduleCandidate &candidate : found.outcome.candidates) {
    llvm::json::Object row{{"schedule", candidate.schedule},
                           {"stages", static_cast<int64_t>(candidate.work->plan.stages.size())},
                           {"valid", candidate.valid()},
                           {"why", candidate.why.message},
                           {"step_ms", nullptr},
                           {"at_least_ms", inMilliseconds(candidate.atLeast)},
                           {"peak_memory", nullptr}};
    if (candidate.step)
      row["step_ms"] = inMilliseconds(*candidate.step);
    if (!candidate.needBytes.empty())
      row["peak_memory"] = memoryJson(candidate.mostBytes(), inBytes);
    rows.push_back(std::move(row));
  }
  document["candidates"] = std::move(rows);
  return document;
}

} // namespace pipec
