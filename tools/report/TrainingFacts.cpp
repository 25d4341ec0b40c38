#include "tools/report/TrainingFacts.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/WholeBackwards.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/ranges.h>

namespace pipec {

namespace {

RunShape runShapeOf(const Plan &plan, const Schedule &rows) {
  return trainingShape(plan, rows, plan.microBatches, /*optimizer=*/true);
}

bool isSplit(const Schedule &rows, size_t stage) {
  return llvm::any_of(rows.ranks, [&](const std::vector<Action> &actions) {
    return llvm::any_of(actions, [&](const Action &action) {
      return action.stage == stage && action.kind == ActionKind::InputGrad;
    });
  });
}

std::string lossText(const Plan &plan) {
  const std::vector<std::string> paths = outputPaths(plan.signature);
  const TrainingPlan &training = *plan.training;
  return "loss: " + paths[training.loss] +
         (training.count ? ", a sum, divided by " + paths[*training.count] : "");
}

double gapOf(const PlanTiming &timing) {
  const int64_t step = timing.timing.makespan;
  return step > 0 ? 1 - double(timing.lowerBound) / double(step) : 0;
}

llvm::json::Array stagesOf(const Plan &plan, const Schedule &rows) {
  const TrainingPlan &training = *plan.training;
  const RunShape shape = runShapeOf(plan, rows);
  llvm::json::Array stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    int64_t again = 0;
    for (int64_t k = 0; k < plan.microBatches; ++k)
      again += shape.recomputes(s, k);
    llvm::json::Object stage{{"rank", static_cast<int64_t>(plan.stages[s].rank)},
                             {"parameter_bytes", plan.stages[s].parameterBytes},
                             {"recompute", again > 0},
                             {"recomputed_microbatches", again},
                             {"backward", isSplit(rows, s) ? "split" : "whole"},
                             {"why_whole", training.whyWhole[s]}};
    if (!training.costs.empty()) {
      const ExpectedCosts &costs = training.costs[s];
      stage["forward_ms"] = inMilliseconds(static_cast<double>(costs.forward));
      stage["input_grad_ms"] = inMilliseconds(static_cast<double>(costs.inputGrad));
      stage["weight_grad_ms"] = inMilliseconds(static_cast<double>(costs.weightGrad));
      stage["kept_bytes"] = costs.kept;
      stage["pending_bytes"] = costs.kept - costs.freedByInputGrad;
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

llvm::json::Array parametersOf(const Plan &plan) {
  const TrainingPlan &training = *plan.training;
  llvm::json::Array parameters;
  for (size_t p = 0; p < training.parameters.size(); ++p) {
    const TrainedParameter &parameter = training.parameters[p];
    llvm::json::Array stages; // in the order in which their gradients are added
    for (const PortRef &use : parameter.uses)
      stages.push_back(static_cast<int64_t>(use.stage));
    parameters.push_back(
        llvm::json::Object{{"name", parameter.name},
                           {"other_names", llvm::json::Array(parameter.otherNames)},
                           {"dtype", parameter.dtype},
                           {"shape", llvm::json::Array(parameter.shape)},
                           {"stages", std::move(stages)},
                           {"owner", static_cast<int64_t>(training.owner(p, plan.stages).stage)}});
  }
  return parameters;
}

} // namespace

std::string recomputeText(const RunShape &shape, size_t stage) {
  int64_t again = 0;
  for (int64_t k = 0; k < shape.microBatches; ++k)
    again += shape.recomputes(stage, k);
  return again == 0                    ? "no"
         : again == shape.microBatches ? "yes"
                                       : fmt::format("{} of {}", again, shape.microBatches);
}

std::string tiedText(const Plan &plan) {
  const auto sent = static_cast<size_t>(
      llvm::count_if(plan.ties, [](const Tie &tie) { return tie.mode == Tie::Mode::Transmit; }));
  if (plan.ties.empty())
    return "";
  return sent == plan.ties.size() ? "transmit" : sent == 0 ? "replicate" : "mixed";
}

Table trainingStagesTable(const Plan &plan, const Schedule &rows) {
  Table table({{"stage"},
               {"rank"},
               {"forward", Table::Right},
               {"input gradient", Table::Right},
               {"weight gradient", Table::Right},
               {"kept", Table::Right},
               {"recompute"},
               {"backward"}});
  if (!plan.training)
    return table;
  const RunShape shape = runShapeOf(plan, rows);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<std::string> costs(4, "-");
    if (!plan.training->costs.empty()) {
      const ExpectedCosts &stage = plan.training->costs[s];
      costs = {formatDuration(stage.forward), formatDuration(stage.inputGrad),
               formatDuration(stage.weightGrad), formatBytes(stage.kept)};
    }
    table.addRow({std::to_string(s), std::to_string(plan.stages[s].rank), costs[0], costs[1],
                  costs[2], costs[3], recomputeText(shape, s),
                  !plan.training->whyWhole[s].empty() ? "whole only"
                  : isSplit(rows, s)                  ? "split"
                                                      : "whole"});
  }
  return table;
}

Table trainedParametersTable(const Plan &plan) {
  Table table({{"parameter"}, {"shape"}, {"stages"}, {"owner", Table::Right}, {"other names"}});
  if (!plan.training)
    return table;
  for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
    const TrainedParameter &parameter = plan.training->parameters[p];
    std::vector<size_t> stages;
    for (const PortRef &use : llvm::reverse(parameter.uses))
      stages.push_back(use.stage);
    table.addRow({parameter.name,
                  fmt::format("{}[{}]", parameter.dtype, fmt::join(parameter.shape, ",")),
                  fmt::format("{}", fmt::join(stages, ",")),
                  std::to_string(plan.training->owner(p, plan.stages).stage),
                  fmt::format("{}", fmt::join(parameter.otherNames, ", "))});
  }
  return table;
}

void printTrainingFacts(llvm::raw_ostream &out, const Plan &plan, const Schedule &rows,
                        const PlanTiming &timing) {
  if (!plan.training)
    return;
  printHeading(out, "training stages");
  trainingStagesTable(plan, rows).print(out);
  for (const std::string &sentence : wholeBackwards(plan))
    out << sentence << '\n';
  out << lossText(plan) << '\n';
  if (timing.known) {
    out << fmt::format(
        "expected: {} per step, {:.0f} % idle; lower bound with these stages {} (gap "
        "{:.1f} %); predicted from {}; transfers are between threads of one process\n",
        formatDuration(timing.timing.makespan), 100 * timing.timing.bubbleMakespan(),
        formatDuration(timing.lowerBound), 100 * gapOf(timing), sourceOfTimes(plan, timing));
    for (size_t r = 0; r < timing.inFlight.size(); ++r)
      out << fmt::format("{}{} {}", r ? ", " : "peak of activations per rank: ", r,
                         formatBytes(timing.inFlight[r]));
    out << '\n';
  }
  const Table parameters = trainedParametersTable(plan);
  if (parameters.empty())
    return;
  out << '\n';
  printHeading(out, "trained parameters");
  parameters.print(out);
}

llvm::json::Object trainingFactsJson(const Plan &plan, const Schedule &rows,
                                     const PlanTiming &timing) {
  const TrainingPlan &training = *plan.training;
  const std::vector<std::string> paths = outputPaths(plan.signature);
  llvm::json::Array recompute, peaks;
  for (size_t stage : training.recompute)
    recompute.push_back(static_cast<int64_t>(stage));
  for (int64_t bytes : timing.inFlight)
    peaks.push_back(bytes);
  llvm::json::Object document{{"loss", paths[training.loss]},
                              {"count", nullptr},
                              {"recompute", std::move(recompute)},
                              {"recompute_except_last", training.recomputeExceptLast},
                              {"stages", stagesOf(plan, rows)},
                              {"parameters", parametersOf(plan)},
                              {"tied", nullptr}};
  if (training.count)
    document["count"] = paths[*training.count];
  if (std::string tied = tiedText(plan); !tied.empty())
    document["tied"] = std::move(tied);
  if (timing.known) {
    document["step_ms"] = inMilliseconds(static_cast<double>(timing.timing.makespan));
    document["bubble"] = timing.timing.bubbleMakespan();
    document["lower_bound_ms"] = inMilliseconds(static_cast<double>(timing.lowerBound));
    document["gap"] = gapOf(timing);
    document["activation_peaks"] = std::move(peaks);
  }
  return document;
}

} // namespace pipec
