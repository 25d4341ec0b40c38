// The costs of one compile: the cluster, the costs of operators, the best automatic cuts, the
// predicted time of a step.
#pragma once

#include "compiler/CompileOptions.h"
#include "compiler/CompileReport.h"
#include "compiler/Pipelines.h"
#include "compiler/cost/PlanCuts.h"
#include "compiler/planner/ForwardSearch.h"
#include "compiler/planner/PlanTraining.h"
#include "ir/Model.h"
#include "ir/costs/Cluster.h"
#include "ir/costs/CostTable.h"
#include "passes/PassContext.h"

#include <optional>

namespace pipec {

/// Call the functions in their order here. The options must outlive it.
class Planning {
public:
  /// Reads the cluster file. Errors: those of readCluster.
  llvm::Error begin(const CompileOptions &options);

  /// Number of stages. Default: the device count. 0: determined by the cuts.
  size_t stages() const;

  /// Default number of ranks, after findCosts: one per stage. With automatic cuts by measured costs
  /// it is limited to the number of cores on which the costs were measured (the table has it), and
  /// with a cluster to the number of devices.
  size_t ranksFor(size_t stages) const;

  /// True if a training is planned around given cuts: by name, or by the model's markers.
  bool trainsAsCut(const Model &model) const;

  /// Fills context.costs if the options need them; returns false if they do not. Errors: Usage
  /// for a memory limit or a time budget for measurements together with given cuts, for a training
  /// whose number of ranks is unknown, and for inputs without elements; those of pipec::findCosts.
  llvm::Expected<bool> findCosts(Model &model, PassContext &context,
                                 const std::vector<c10::IValue> &inputs, CompileReport &report);

  /// Chooses automatic cuts, after findCosts. Returns false if the cuts are given; a training is
  /// then planned around `given`. Errors: those of pipec::planCuts and pipec::planTraining.
  llvm::Expected<bool> planCuts(const Model &model, const std::vector<NodeCost> &costs,
                                const std::optional<std::vector<size_t>> &given,
                                CompileReport &report);

  /// The mode of weights that several stages read, if the plan of a training chose it and the
  /// options give no mode by name.
  std::optional<Tie::Mode> tied() const;

  /// The planned training; null: no costs are known, or it is an inference.
  const PlannedTraining *training() const { return training_.get(); }

  /// The planned cuts; no places if none were planned.
  PlannedCuts cuts() const;

  /// True if costs were measured or read from a table: they then differ between runs or users.
  bool isOfThisRun() const { return ofThisRun_; }

  /// Operators were timed, in this compile.
  bool isMeasured() const { return std::holds_alternative<MeasuredCosts>(costSource()); }

  /// For --schedule auto: chooses the ranks of the stages and the number of micro-batches, using
  /// the channels of the plan; for a training, as it was planned. Errors: those of planForward.
  llvm::Error placeStages(Plan &plan, CompileReport &report) const;

  /// Makes the planned training, if there is one, that of stages of which some cannot split their
  /// backward (`whyWhole` as in TrainingPlan): its expectation is the schedule's as it will run.
  /// The cuts stay, because the stages are written and compared by then.
  llvm::Error keepWhole(const std::vector<std::string> &whyWhole);

  /// Predicts the performance of the plan as read back, run by `schedule`.
  llvm::Error forecast(CompileReport &report, const Schedule &schedule) const;

private:
  CostSource costSource() const;
  bool isAuto() const {
    return options_->schedule && std::holds_alternative<AutoSchedule>(*options_->schedule);
  }
  bool isTraining() const { return options_->mode == Mode::Train; }
  bool areCutsGiven(const Model &model) const;
  llvm::Error checkRequest(const Model &model) const;
  llvm::Error planTraining(const Model &model, const std::optional<std::vector<size_t>> &given);
  std::vector<size_t> stageCounts() const;
  ForwardProblem forwardProblem(size_t ranks, const Signature &signature) const;
  std::string whyFewerRanks(const Plan &plan) const;
  bool isCutByCost(const Model &model) const;
  size_t ranks(const Model &model) const; // as many as will run, as far as it is known yet

  const CompileOptions *options_ = nullptr;
  Cluster cluster_;
  std::optional<CutPlan> planned_;
  std::shared_ptr<const PlannedTraining> training_;
  CostTable table_;
  int64_t memoryBytes_ = 0; // of the device that a stage is planned for; 0: no limit
  bool cutsGiven_ = false, cutsByCost_ = false, costsKnown_ = false, ofThisRun_ = false;
};

} // namespace pipec
