#include "tools/schedule/ScheduleAuto.h"

#include "ir/support/Try.h"
#include "tools/report/Table.h"
#include "tools/schedule/ScheduleReport.h"

namespace pipec {
namespace {

/// Costs per rank stay the same for any number of ranks.
std::string helpWithMemory(const TrialRequest &asked, const AutoShape &shape) {
  if (!asked.costs.exact)
    return "raise --memory-limit, or lower mem in --costs: every rank holds that much per "
           "micro-batch, for any number of ranks";
  if (shape.chunks.front() > 1)
    return "raise --ranks, so that each rank has fewer stages, or raise --memory-limit";
  return "raise --memory-limit, or pass the costs of more stages: these already have one rank each";
}

} // namespace

llvm::Expected<AutoTrial> searchSchedules(const TrialRequest &asked) {
  if (asked.pairs != PairRule::Split)
    return makeError(ExitCode::Usage, "auto: expected --pairs split, got another",
                     "programs run a pair one after the other; name a schedule instead of auto");
  AutoShape shape = TRY(autoShape(asked));
  SearchOptions options;
  options.recompute = RecomputeChoice::Never;
  options.memoryText =
      asked.costs.inBytes ? formatBytes : [](int64_t memory) { return memoryText(memory, false); };
  options.helpWithMemory = helpWithMemory(asked, shape);
  ScheduleSearch search(options);
  for (StagedWork &work : worksOf(asked, shape))
    TRY(search.add(std::move(work)));
  SearchOutcome outcome = TRY(search.take());
  // Runs the trial again, so that every result is judged and drawn in the same way.
  TrialRequest again = asked;
  again.timeAsProgram = true;
  again.ranks = shape.ranks;
  again.stages = shape.ranks * outcome.best().work->chunks;
  Trial trial = TRY(tryMade(outcome.best().schedule, outcome.schedule, again));
  StepBound bound = TRY(stepBound(asked));
  return AutoTrial{std::move(trial), std::move(outcome), bound};
}

void printCandidates(llvm::raw_ostream &out, const AutoTrial &found, bool inBytes) {
  const SearchOutcome &outcome = found.outcome;
  const StepBound &bound = found.bound;
  Table table({{"schedule"},
               {"stages", Table::Right},
               {"step time", Table::Right},
               {"above bound", Table::Right},
               {"peak of activations", Table::Right},
               {"fits"}});
  for (const ScheduleCandidate &candidate : outcome.candidates) {
    std::vector<std::string> row = {candidate.schedule,
                                    std::to_string(candidate.work->plan.stages.size())};
    if (candidate.valid()) {
      const int64_t time = candidate.step.value_or(candidate.atLeast);
      row.push_back((candidate.step ? "" : "at least ") + formatDuration(time));
      row.push_back(aboveBoundText(time, bound.time));
    } else {
      row.insert(row.end(), 2, "-");
    }
    row.push_back(candidate.needBytes.empty() ? "-" : memoryText(candidate.mostBytes(), inBytes));
    row.push_back(candidate.valid() ? "yes" : "no: " + candidate.why.message);
    table.addRow(std::move(row));
  }
  table.print(out);
  out << stepBoundText(bound) << "\n";
  if (!outcome.complete)
    out << "the time limit passed before every schedule was tried\n";
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
