#include "tools/schedule/ScheduleReport.h"

#include "ir/support/ShownStream.h"
#include "ir/support/Words.h"
#include "tools/report/Table.h"
#include "tools/report/TimeChart.h"
#include "tools/schedule/ScheduleBound.h"

#include <algorithm>

namespace pipec {
namespace {

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }
int64_t peakOf(const Trial &trial) {
  return *std::max_element(trial.timing->peakBytes.begin(), trial.timing->peakBytes.end());
}

std::string chunksText(const Generator &generator) {
  if (generator.leastChunks == generator.mostChunks)
    return std::to_string(generator.leastChunks);
  return generator.mostChunks ? fmt::format("{} to {}", generator.leastChunks, generator.mostChunks)
                              : fmt::format("{} or more", generator.leastChunks);
}

llvm::json::Array rowsOf(const Schedule &schedule) {
  llvm::json::Array rows;
  const std::string csv = toCsv(schedule);
  llvm::StringRef rest = csv;
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    auto [line, after] = rest.split('\n');
    rest = after;
    llvm::json::Array row;
    llvm::SmallVector<llvm::StringRef, 64> cells;
    line.split(cells, ',', -1, false);
    for (llvm::StringRef cell : cells)
      row.push_back(cell.str());
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

llvm::json::Value memoryJson(int64_t memory, bool inBytes) {
  if (inBytes || memory % kMicroBatchUnits == 0)
    return inBytes ? memory : memory / kMicroBatchUnits;
  return static_cast<double>(memory) / static_cast<double>(kMicroBatchUnits);
}

std::string titleOf(const Trial &trial) {
  std::string text = trial.name;
  if (trial.schedule)
    text += ": " + counted(trial.ranks(), "rank");
  if (trial.shape)
    text += ", " + counted(trial.shape->stages, "stage") + ", " +
            counted(static_cast<size_t>(trial.shape->microBatches), "micro-batch");
  return text;
}

std::string subtitleOf(const Trial &trial) {
  return fmt::format("step {}, bubble {}", formatDuration(trial.timing->makespan),
                     percent(trial.timing->bubbleMakespan()));
}

std::vector<std::string> rankNotes(const Trial &trial, bool inBytes) {
  std::vector<std::string> notes;
  for (int64_t peak : trial.timing->peakBytes)
    notes.push_back("peak " + memoryText(peak, inBytes));
  return notes;
}

void printTrial(llvm::raw_ostream &out, const Trial &trial, bool inBytes) {
  printHeading(out, titleOf(trial));
  if (!trial.timing)
    return;
  const Timing &timing = *trial.timing;
  out << "\n";
  printPainted(out, drawTimeChart(*trial.schedule, timing, {100, usesColour(out)}));
  out << "\n";
  Table times({{"step time"}, {formatDuration(timing.makespan)}});
  auto row = [&](const char *what, const std::string &value) { times.addRow({what, value}); };
  row("longest span of a rank", formatDuration(timing.longestSpan));
  row("bubble of the step time", percent(timing.bubbleMakespan()));
  row("bubble of the longest span", percent(timing.bubbleLongestSpan()));
  row("lower bound with these stages",
      fmt::format("{} ({} above it)", formatDuration(trial.lowerBound),
                  aboveBoundText(timing.makespan, trial.lowerBound)));
  times.print(out);
  out << "\n";
  Table ranks({{"rank"},
               {"busy", Table::Right},
               {"idle", Table::Right},
               {trial.wholeMemory ? "peak memory" : "peak of activations", Table::Right}});
  for (size_t r = 0; r < trial.ranks(); ++r)
    ranks.addRow(
        {std::to_string(r), formatDuration(timing.busy[r]),
         percent(timing.makespan ? 1 - double(timing.busy[r]) / double(timing.makespan) : 0),
         memoryText(timing.peakBytes[r], inBytes)});
  ranks.print(out);
}

void printComparison(llvm::raw_ostream &out, const std::vector<Trial> &trials,
                     const TrialRequest &request) {
  const bool inBytes = request.costs.inBytes;
  const std::map<TrialKind, StepBound> bounds = boundsOf(trials, request);
  Table table({{"schedule"},
               {"stages", Table::Right},
               {"step time", Table::Right},
               {"above bound", Table::Right},
               {"bubble of step", Table::Right},
               {"bubble of longest span", Table::Right},
               {"peak of activations", Table::Right},
               {"valid"}});
  for (const Trial &trial : trials) {
    std::vector<std::string> row = {trial.name,
                                    trial.shape ? std::to_string(trial.shape->stages) : "-"};
    if (trial.timing) {
      row.insert(row.end(),
                 {formatDuration(trial.timing->makespan),
                  aboveBoundText(trial.timing->makespan, bounds.at(kindOf(trial)).time),
                  percent(trial.timing->bubbleMakespan()),
                  percent(trial.timing->bubbleLongestSpan()), memoryText(peakOf(trial), inBytes)});
    } else {
      row.insert(row.end(), 5, "-");
    }
    row.push_back(trial.valid() ? "yes" : "no: " + trial.why.message);
    table.addRow(std::move(row));
  }
  table.print(out);
  if (bounds.size() == 1)
    out << stepBoundText(bounds.begin()->second) << "\n";
}

void printGenerators(llvm::raw_ostream &out) {
  Table table({{"name"}, {"stages per rank"}, {"looks at"}, {"what it is"}, {"published"}});
  for (const Generator &generator : generators())
    table.addRow({generator.name.str(),
                  chunksText(generator) + (generator.placement == Placement::V ? ", in a V" : ""),
                  generator.looksAtCosts ? "costs, memory limit" : "", generator.summary.str(),
                  generator.source.str()});
  table.print(out);
}

llvm::json::Object trialJson(const Trial &trial, bool inBytes) {
  llvm::json::Object document{
      {"valid", trial.valid()},     {"why", trial.why.message},   {"makespan_ms", nullptr},
      {"longest_span_ms", nullptr}, {"bubble_makespan", nullptr}, {"bubble_longest_span", nullptr},
      {"peak_memory", nullptr},     {"lower_bound_ms", nullptr},  {"actions", llvm::json::Array()}};
  if (trial.schedule)
    document["actions"] = rowsOf(*trial.schedule);
  if (!trial.timing)
    return document;
  const Timing &timing = *trial.timing;
  document["makespan_ms"] = inMilliseconds(timing.makespan);
  document["longest_span_ms"] = inMilliseconds(timing.longestSpan);
  document["bubble_makespan"] = timing.bubbleMakespan();
  document["bubble_longest_span"] = timing.bubbleLongestSpan();
  document["lower_bound_ms"] = inMilliseconds(trial.lowerBound);
  llvm::json::Array peaks;
  for (int64_t peak : timing.peakBytes)
    peaks.push_back(memoryJson(peak, inBytes));
  document["peak_memory"] = std::move(peaks);
  return document;
}

llvm::json::Array generatorsJson() {
  llvm::json::Array rows;
  for (const Generator &generator : generators()) {
    llvm::json::Object row{{"name", generator.name},
                           {"summary", generator.summary},
                           {"published", generator.source},
                           {"placement", generator.placement == Placement::V ? "v" : "loop"},
                           {"least_stages_per_rank", static_cast<int64_t>(generator.leastChunks)},
                           {"most_stages_per_rank", nullptr},
                           {"looks_at_costs", generator.looksAtCosts}};
    if (generator.mostChunks)
      row["most_stages_per_rank"] = static_cast<int64_t>(generator.mostChunks);
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace pipec
