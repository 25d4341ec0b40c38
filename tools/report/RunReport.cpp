#include "tools/report/RunReport.h"

#include "ir/batch/TensorSpecs.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/Median.h"
#include "tools/report/Table.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipec {

llvm::json::Value numberOrNull(double value) {
  return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
}

namespace {

/// Mean time that a stage was busy in one run.
int64_t meanBusyNs(const RunReport &report, size_t stage) {
  return report.durationsNs.empty()
             ? 0
             : report.busyNs[stage] / static_cast<int64_t>(report.durationsNs.size());
}

/// medianNs: of a run. The steps of a training differ, so all its samples are over all its time.
double samplesPerSecond(const RunReport &report, int64_t medianNs) {
  const bool isTraining = report.allSamples > 0;
  const int64_t samples = isTraining ? report.allSamples : report.samples;
  const int64_t ns =
      isTraining ? std::accumulate(report.durationsNs.begin(), report.durationsNs.end(), int64_t(0))
                 : medianNs;
  return ns > 0 ? static_cast<double>(samples) * 1e9 / static_cast<double>(ns) : 0;
}

std::string percent(double part) { return fmt::format("{:.1f} %", part * 100); }

std::string keyText(const c10::IValue &key) {
  if (key.isString())
    return pathKey(key.toStringRef());
  if (key.isInt())
    return std::to_string(key.toInt());
  if (key.isDouble())
    return fmt::format("{}", key.toDouble());
  if (key.isBool())
    return key.toBool() ? "True" : "False";
  return key.tagKind();
}

void addLines(std::vector<std::string> &lines, const std::string &path, const c10::IValue &value) {
  auto at = [&](const std::string &part) { return path.empty() ? part : path + "." + part; };
  std::string title = path.empty() ? "" : path + ": ";
  if (value.isTensor()) {
    const at::Tensor &tensor = value.toTensor();
    if (!tensor.defined()) {
      lines.push_back(title + "undefined tensor");
      return;
    }
    lines.push_back(fmt::format("{}{}[{}]", title, specOf(tensor).dtype,
                                fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", ")));
  } else if (value.isTuple()) {
    for (size_t i = 0; i < value.toTupleRef().elements().size(); ++i)
      addLines(lines, at(std::to_string(i)), value.toTupleRef().elements()[i]);
  } else if (value.isList()) {
    for (size_t i = 0; i < value.toListRef().size(); ++i)
      addLines(lines, at(std::to_string(i)), value.toListRef()[i]);
  } else if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict())
      addLines(lines, at(keyText(entry.key())), entry.value());
  } else {
    lines.push_back(title + value.type()->annotation_str());
  }
}

/// Statistics of the durations of repeated runs, in nanoseconds.
struct DurationStats {
  int64_t min = 0, median = 0, p95 = 0, max = 0;
};

/// p95 is the nearest rank; zeros for no durations.
DurationStats statsOf(std::vector<int64_t> durations) {
  if (durations.empty())
    return {};
  std::sort(durations.begin(), durations.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(durations.size())));
  return {durations.front(), medianOf(durations), durations[rank - 1], durations.back()};
}

} // namespace

std::vector<std::string> describeOutputs(const c10::IValue &result) {
  std::vector<std::string> lines;
  addLines(lines, "", result);
  return lines;
}

void printText(const RunReport &report, llvm::raw_ostream &out) {
  constexpr size_t kMostOutputs = 8;
  DurationStats time = statsOf(report.durationsNs);
  Table stages({{"stage", Table::Right},
                {"rank", Table::Right},
                {"device"},
                {"busy", Table::Right},
                {"modules"}});
  for (size_t s = 0; s < report.stages.size(); ++s)
    stages.addRow({std::to_string(s), std::to_string(report.stages[s].rank),
                   report.devices[report.stages[s].rank], formatDuration(meanBusyNs(report, s)),
                   report.stages[s].modules});
  stages.print(out);
  out << '\n';
  Table table({{"runs", Table::Right},
               {"min", Table::Right},
               {"median", Table::Right},
               {"p95", Table::Right},
               {"max", Table::Right},
               {"samples/s", Table::Right},
               {"bubble", Table::Right},
               {"peak memory", Table::Right}});
  table.addRow({std::to_string(report.durationsNs.size()), formatDuration(time.min),
                formatDuration(time.median), formatDuration(time.p95), formatDuration(time.max),
                report.samples ? fmt::format("{:.1f}", samplesPerSecond(report, time.median)) : "-",
                percent(medianOf(report.bubblesMakespan)),
                formatBytes(*std::max_element(report.peakMemoryBytes.begin(),
                                              report.peakMemoryBytes.end()))});
  table.print(out);
  out << fmt::format("\n{}micro-batches: {}, intra-op threads per rank: {}\n",
                     report.samples ? fmt::format("samples: {}, ", report.samples) : "",
                     report.microBatches, report.threads);
  if (report.predicted)
    out << fmt::format("the stages' times alone, simulated: {} per step, bubble {}\n",
                       formatDuration(report.predicted->makespanNs),
                       percent(report.predicted->bubbleMakespan));
  for (size_t i = 0; i < std::min(report.outputs.size(), kMostOutputs); ++i)
    out << "output " << report.outputs[i] << '\n';
  if (report.outputs.size() > kMostOutputs)
    out << fmt::format("and {} more outputs\n", report.outputs.size() - kMostOutputs);
  if (report.comparison && report.comparison->numbers > 0)
    out << fmt::format(
        "compared: {} numbers, largest absolute difference {:.3g}, relative {:.3g}\n",
        report.comparison->numbers, report.comparison->maxAbs, report.comparison->maxRel);
}

void RunReport::add(const StepStats &stats) {
  durationsNs.push_back(stats.makespanNs);
  bubblesMakespan.push_back(stats.bubbleMakespan);
  bubblesLongestSpan.push_back(stats.bubbleLongestSpan);
  busyNs.resize(stats.stageBusyNs.size());
  for (size_t s = 0; s < busyNs.size(); ++s)
    busyNs[s] += stats.stageBusyNs[s];
}

void printJson(const RunReport &report, llvm::raw_ostream &out) {
  DurationStats time = statsOf(report.durationsNs);
  auto bubble = [&](const std::vector<double> &measured, double StepStats::*which) {
    return llvm::json::Object{{"measured", medianOf(measured)},
                              {"predicted", report.predicted
                                                ? llvm::json::Value((*report.predicted).*which)
                                                : llvm::json::Value(nullptr)}};
  };
  llvm::json::Array stages;
  for (size_t s = 0; s < report.stages.size(); ++s)
    stages.push_back(llvm::json::Object{{"index", static_cast<int64_t>(s)},
                                        {"rank", static_cast<int64_t>(report.stages[s].rank)},
                                        {"modules", report.stages[s].modules},
                                        {"busy_ms", inMilliseconds(meanBusyNs(report, s))}});
  llvm::json::Object document{
      {"schema_version", 1},
      {"model", report.model},
      {"options", llvm::json::Object(report.options)},
      {"stages", std::move(stages)},
      {"runs", static_cast<int64_t>(report.durationsNs.size())},
      {"step_ms", llvm::json::Object{{"min", inMilliseconds(time.min)},
                                     {"median", inMilliseconds(time.median)},
                                     {"p95", inMilliseconds(time.p95)},
                                     {"max", inMilliseconds(time.max)}}},
      {"samples", report.samples},
      {"samples_per_s", samplesPerSecond(report, time.median)},
      {"bubble_makespan", bubble(report.bubblesMakespan, &StepStats::bubbleMakespan)},
      {"bubble_longest_span", bubble(report.bubblesLongestSpan, &StepStats::bubbleLongestSpan)},
      {"peak_memory_bytes", llvm::json::Array(report.peakMemoryBytes)},
      {"outputs", llvm::json::Array(report.outputs)},
  };
  if (report.predicted)
    document["predicted_step_ms"] =
        inMilliseconds(static_cast<double>(report.predicted->makespanNs));
  if (report.losses) {
    llvm::json::Array losses;
    for (const double loss : *report.losses)
      losses.push_back(numberOrNull(loss));
    document["loss"] = std::move(losses);
  }
  if (report.evaluations)
    document["eval"] = llvm::json::Array(*report.evaluations);
  if (report.comparison) {
    bool any = report.comparison->numbers > 0;
    document["compare"] = llvm::json::Object{
        {"equal", report.comparison->equal},
        {"numbers", report.comparison->numbers},
        {"max_abs", any ? numberOrNull(report.comparison->maxAbs) : llvm::json::Value(nullptr)},
        {"max_rel", any ? numberOrNull(report.comparison->maxRel) : llvm::json::Value(nullptr)},
        {"first_difference", report.comparison->firstDifference}};
  }
  out << llvm::formatv("{0:2}", llvm::json::Value(std::move(document))) << '\n';
}

} // namespace pipec
