#include "tools/report/TrainingReport.h"

#include "ir/support/Words.h"
#include "tools/report/PlanReport.h"
#include "tools/report/Table.h"
#include "tools/report/TrainingFacts.h"

#include <fmt/format.h>

namespace pipec {

namespace {

std::string microBatchesOf(const PlannedTraining &plan) {
  std::string text = counted(static_cast<size_t>(plan.microBatches), "micro-batch");
  if (plan.samples)
    text += " of " + counted(static_cast<size_t>(plan.samples), "sample");
  return text;
}

void printStagesOf(llvm::raw_ostream &out, const PlannedTraining &plan) {
  printHeading(out, "training stages");
  Table table({{"stage"},
               {"rank"},
               {"modules"},
               {"nodes", Table::Right},
               {"forward", Table::Right},
               {"input gradient", Table::Right},
               {"weight gradient", Table::Right},
               {"parameters", Table::Right},
               {"kept", Table::Right},
               {"recompute"}});
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage &stage = plan.stages[s];
    table.addRow({std::to_string(s), std::to_string(stage.rank),
                  modulesOf(stage.firstModule, stage.lastModule),
                  std::to_string(stage.end - stage.begin), formatDuration(stage.costs.forward),
                  formatDuration(stage.costs.inputGrad), formatDuration(stage.costs.weightGrad),
                  formatBytes(stage.weightBytes), formatBytes(stage.costs.heldByForward),
                  recomputeText(plan.shape, s)});
  }
  table.print(out);
}

} // namespace

void printTraining(llvm::raw_ostream &out, const PlannedTraining &plan) {
  printStagesOf(out, plan);
  out << fmt::format("\ntraining: {}, {} on {}, {}{}\n", plan.scheduleName,
                     counted(plan.stages.size(), "stage"), counted(plan.ranks, "rank"),
                     microBatchesOf(plan),
                     tiedText(plan.plan).empty() ? "" : ", shared weights: " + tiedText(plan.plan));
  out << fmt::format(
      "expected: {} per step with an update by AdamW, {:.0f} % idle; lower bound {} (gap "
      "{:.1f} %)\n",
      formatDuration(plan.stepNs), 100 * plan.timing.bubbleMakespan(),
      formatDuration(plan.lowerBoundNs), 100 * plan.gap());
  for (size_t r = 0; r < plan.peakBytes.size(); ++r)
    out << fmt::format("{}{} {}", r ? ", " : "peak memory per rank: ", r,
                       formatBytes(plan.peakBytes[r]));
  out << '\n';
  out << fmt::format("searched: {} of {}, {}{}\n", counted(plan.schedules, "schedule"),
                     counted(plan.pipelines, "pipeline"),
                     plan.everyCut ? "every cut" : "the most promising cuts",
                     plan.complete ? "" : "; the time limit passed before all were tried");
}

llvm::json::Object trainingJson(const PlannedTraining &plan) {
  llvm::json::Array stages, peaks;
  for (const PlannedStage &stage : plan.stages)
    stages.push_back(
        llvm::json::Object{{"rank", static_cast<int64_t>(stage.rank)},
                           {"first_operator", static_cast<int64_t>(stage.begin)},
                           {"nodes", static_cast<int64_t>(stage.end - stage.begin)},
                           {"modules", llvm::json::Array{stage.firstModule, stage.lastModule}},
                           {"forward_ms", inMilliseconds(stage.costs.forward)},
                           {"input_grad_ms", inMilliseconds(stage.costs.inputGrad)},
                           {"weight_grad_ms", inMilliseconds(stage.costs.weightGrad)},
                           {"parameter_bytes", stage.weightBytes},
                           {"kept_bytes", stage.costs.heldByForward},
                           {"pending_bytes", stage.costs.freedByWeightGrad()},
                           {"recompute", stage.recomputed}});
  for (int64_t bytes : plan.peakBytes)
    peaks.push_back(bytes);
  llvm::json::Object document{{"schedule", plan.scheduleName},
                              {"ranks", static_cast<int64_t>(plan.ranks)},
                              {"stages", std::move(stages)},
                              {"microbatches", plan.microBatches},
                              {"samples", nullptr},
                              {"tied", nullptr},
                              {"step_ms", inMilliseconds(plan.stepNs)},
                              {"bubble", plan.timing.bubbleMakespan()},
                              {"lower_bound_ms", inMilliseconds(plan.lowerBoundNs)},
                              {"gap", plan.gap()},
                              {"peak_memory", std::move(peaks)},
                              {"complete", plan.complete},
                              {"every_cut", plan.everyCut},
                              {"pipelines", static_cast<int64_t>(plan.pipelines)},
                              {"schedules", static_cast<int64_t>(plan.schedules)}};
  if (plan.samples)
    document["samples"] = plan.samples;
  if (const std::string tied = tiedText(plan.plan); !tied.empty())
    document["tied"] = tied;
  return document;
}

} // namespace pipec
