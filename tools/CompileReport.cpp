#include "tools/CompileReport.h"

#include "tools/PlanReport.h"
#include "tools/Table.h"

#include <fmt/format.h>

namespace pipec {

namespace {

std::string batchSentence(const Signature &signature) {
  if (llvm::none_of(signature.inputs, [](const InputSpec &input) { return input.batchDim; }))
    return "batch: no input is cut into micro-batches; there is one";
  if (signature.batchSize == 0)
    return "batch: no example inputs were given, so sizes are not checked";
  if (signature.batchSymbolic)
    return "batch: any micro-batch size";
  return fmt::format("batch: only micro-batches of {} samples, as the model has that size built in",
                     signature.batchSize);
}

} // namespace

void printReport(llvm::raw_ostream &out, const CompileReport &report) {
  printStages(out, report.plan);
  out << '\n';
  printChannels(out, report.plan);
  if (!report.plan.channels.empty())
    out << '\n';
  printTies(out, report.plan);
  if (!report.plan.ties.empty())
    out << '\n';
  out << batchSentence(report.plan.signature) << '\n';
  for (const std::string &sentence : report.proved)
    out << "proved: " << sentence << '\n';
  for (const std::string &sentence : report.tested)
    out << "tested: " << sentence << '\n';
  out << '\n';
  printHeading(out, "time of the compile");
  Table table({{"phase"}, {"time", Table::Right}});
  for (const PhaseTime &phase : report.phases)
    table.addRow({phase.name, formatDuration(phase.ns)});
  table.print(out);
}

llvm::json::Object reportJson(const CompileReport &report) {
  const Plan &plan = report.plan;
  llvm::json::Array phases;
  for (const PhaseTime &phase : report.phases)
    phases.push_back(
        llvm::json::Object{{"name", phase.name}, {"ms", static_cast<double>(phase.ns) / 1e6}});
  return llvm::json::Object{
      {"schema_version", 1},
      {"stages", stagesJson(plan)},
      {"channels", channelsJson(plan)},
      {"ties", tiesJson(plan)},
      {"batch", batchJson(plan)},
      {"prediction",
       llvm::json::Object{{"schedule", plan.scheduleName}, {"microbatches", plan.microBatches}}},
      {"proved", llvm::json::Array(report.proved)},
      {"tested", llvm::json::Array(report.tested)},
      {"notes", llvm::json::Array(report.notes)},
      {"phases", std::move(phases)},
      {"libtorch_load_save_ms", static_cast<double>(report.torchFileNs) / 1e6},
      {"peak_memory_bytes", report.peakMemoryBytes}};
}

} // namespace pipec
