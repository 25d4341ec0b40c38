#include "tools/report/CompileReport.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "tools/report/BatchReport.h"
#include "tools/report/PlanReport.h"
#include "tools/report/Table.h"
#include "tools/report/TrainingReport.h"

#include <fmt/format.h>

namespace pipec {

namespace {

std::string batchSentence(const Signature &signature) {
  if (!isCut(signature))
    return "batch: no input is cut, so there is one micro-batch";
  if (signature.batchSize == 0)
    return "batch: no example inputs were given, so sizes are not checked";
  if (signature.batchSymbolic)
    return "batch: any micro-batch size";
  return fmt::format("batch: only micro-batches of {}, because the model failed at other sizes",
                     counted(static_cast<size_t>(signature.batchSize), "sample"));
}

/// Per stage and for a step, if costs are known.
void printExpected(llvm::raw_ostream &out, const CompileReport &report) {
  const Prediction &prediction = report.prediction;
  if (!prediction.known)
    return;
  out << fmt::format("expected: {} per step of {} micro-batches, {}, {:.0f} % idle\n",
                     formatDuration(prediction.stepNs), report.plan.microBatches,
                     report.plan.scheduleName, 100 * prediction.bubble);
  if (report.partition.known)
    out << fmt::format(
        "cuts: slowest stage {}, lower bound {} (gap {:.1f} %){}\n",
        formatDuration(static_cast<int64_t>(report.partition.bottleneckNs)),
        formatDuration(static_cast<int64_t>(report.partition.lowerBoundNs)),
        100 * report.partition.gap(),
        report.partition.moved
            ? fmt::format("; {} earlier or later than in the program",
                          report.partition.moved == 1
                              ? "1 operator runs"
                              : fmt::format("{} operators run", report.partition.moved))
            : "");
  if (report.schedule.placements)
    out << fmt::format(
        "schedule: the fastest of {} of these stages on {}{}\n",
        counted(report.schedule.placements, "placement"), counted(report.plan.ranks, "rank"),
        report.schedule.lowerBoundNs
            ? "; lower bound of a step " + formatDuration(report.schedule.lowerBoundNs)
            : "");
  for (size_t s = 0; s < prediction.memoryBytes.size(); ++s)
    out << fmt::format("{}stage {}: {}", s ? ", " : "memory: ", s,
                       formatBytes(prediction.memoryBytes[s]));
  if (!prediction.memoryBytes.empty())
    out << '\n';
}

llvm::json::Array stagesWithCosts(const CompileReport &report) {
  llvm::json::Array stages = stagesJson(report.plan);
  const Prediction &prediction = report.prediction;
  for (size_t s = 0; s < stages.size(); ++s) {
    llvm::json::Object &stage = *stages[s].getAsObject();
    if (report.training) {
      const PlannedStage &planned = report.training->stages[s];
      stage["forward_ms"] = inMilliseconds(planned.costs.forward);
      stage["backward_ms"] = inMilliseconds(planned.costs.fullBackward());
    }
    if (s < prediction.forwardNs.size())
      stage["forward_ms"] = inMilliseconds(prediction.forwardNs[s]);
    if (s < prediction.memoryBytes.size())
      stage["memory_bytes"] = prediction.memoryBytes[s];
  }
  return stages;
}

llvm::json::Object predictionJson(const CompileReport &report) {
  if (report.training)
    return trainingJson(*report.training);
  llvm::json::Object object{{"schedule", report.plan.scheduleName},
                            {"microbatches", report.plan.microBatches}};
  if (report.prediction.known) {
    object["step_ms"] = inMilliseconds(report.prediction.stepNs);
    object["bubble"] = report.prediction.bubble;
  }
  if (report.schedule.placements) {
    object["placements"] = static_cast<int64_t>(report.schedule.placements);
    if (report.schedule.lowerBoundNs)
      object["lower_bound_ms"] = inMilliseconds(report.schedule.lowerBoundNs);
  }
  return object;
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
  printBatch(out, report);
  out << '\n' << batchSentence(report.plan.signature) << '\n';
  if (const std::string sizes = sizesSentence(report.plan.signature, report.partSizes);
      !sizes.empty())
    out << sizes << '\n';
  if (!report.sizeLinks.empty())
    out << "sizes in the examples: " << report.sizeLinks << '\n';
  if (report.training) {
    out << '\n';
    printTraining(out, *report.training);
    out << '\n';
  }
  if (!report.ranksWhy.empty())
    out << fmt::format("ranks: {}, {}, for {}; --ranks {} gives one per stage\n", report.plan.ranks,
                       report.ranksWhy, counted(report.plan.stages.size(), "stage"),
                       report.plan.stages.size());
  printExpected(out, report);
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
    phases.push_back(llvm::json::Object{{"name", phase.name}, {"ms", inMilliseconds(phase.ns)}});
  llvm::json::Object document{{"schema_version", 1},
                              {"stages", stagesWithCosts(report)},
                              {"channels", channelsJson(plan)},
                              {"ties", tiesJson(plan)},
                              {"inputs", inputsJson(report)},
                              {"results", resultsJson(report)},
                              {"batch", batchJson(plan)},
                              {"prediction", predictionJson(report)},
                              {"proved", llvm::json::Array(report.proved)},
                              {"tested", llvm::json::Array(report.tested)},
                              {"notes", llvm::json::Array(report.notes)},
                              {"warnings", llvm::json::Array(report.warnings)},
                              {"phases", std::move(phases)},
                              {"libtorch_load_save_ms", inMilliseconds(report.torchFileNs)},
                              {"peak_memory_bytes", report.peakMemoryBytes}};
  if (!report.sizeLinks.empty())
    document["size_links"] = report.sizeLinks;
  if (!report.ranksWhy.empty())
    document["ranks_why"] = report.ranksWhy;
  if (report.partition.known)
    document["partition"] =
        llvm::json::Object{{"bottleneck_ms", inMilliseconds(report.partition.bottleneckNs)},
                           {"lower_bound_ms", inMilliseconds(report.partition.lowerBoundNs)},
                           {"gap", report.partition.gap()},
                           {"moved_operators", static_cast<int64_t>(report.partition.moved)}};
  return document;
}

} // namespace pipec
