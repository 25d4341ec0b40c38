// What one compile knows of costs: the cluster, what operators cost, where automatic cuts are best,
// how long a step will take.
#pragma once

#include "compiler/Compiler.h"
#include "compiler/Pipelines.h"
#include "compiler/cost/PlanCuts.h"
#include "compiler/planner/ForwardSearch.h"
#include "compiler/planner/PlanTraining.h"
#include "ir/Model.h"
#include "ir/plan/Cluster.h"
#include "ir/plan/CostTable.h"

#include <optional>

namespace pipec {

/// Used in the order of its functions. The options must outlive it.
class Planning {
public:
  /// Reads the cluster file. Errors: those of readCluster.
  llvm::Error begin(const CompileOptions &options);

  /// As many as there are devices where nobody says more; 0: as the cuts say.
  size_t stages() const;

  /// After findCosts, where nobody says otherwise: one per stage; with automatic cuts by measured
  /// costs at most as many as the cores that they were measured on, which the table tells; with a
  /// cluster at most as many as it has devices.
  size_t ranksFor(size_t stages) const;

  /// A training is planned around cuts that were given: by name, by the model's markers.
  bool trainsAsCut(const Model &model) const;

  /// Fills model.nodeCosts where the options need them; false: they do not. Errors: Usage for a
  /// memory limit or time for measurements with given cuts, for a training on nobody knows how many
  /// ranks and for inputs without elements; those of pipec::findCosts.
  llvm::Expected<bool> findCosts(Model &model, const std::vector<c10::IValue> &inputs,
                                 CompileReport &report);

  /// Automatic cuts, after findCosts; false: the cuts are given, as `given` says where a training
  /// is planned around them. Errors: those of pipec::planCuts and pipec::planTraining.
  llvm::Expected<bool> planCuts(const Model &model, const std::optional<std::vector<size_t>> &given,
                                CompileReport &report);

  /// How weights are kept that several stages read, where the plan of a training says it and the
  /// options give no mode by their names.
  std::optional<Tie::Mode> tied() const;

  /// The planned cuts; no places: none were planned.
  PlannedCuts cuts() const;

  /// Costs were measured, or read from a table: not the same on every run, or for every user.
  bool isOfThisRun() const { return ofThisRun_; }

  /// Operators were timed, in this compile.
  bool isMeasured() const { return kindOfCosts() == "measured"; }

  /// Where --schedule auto is asked for: ranks of the stages and number of micro-batches, by what
  /// the plan says of channels; of a training as it was planned. Errors: those of planForward.
  llvm::Error placeStages(Plan &plan, CompileReport &report) const;

  /// What the plan as read back, run by `schedule`, lets expect.
  llvm::Error forecast(CompileReport &report, const Schedule &schedule) const;

private:
  std::string kindOfCosts() const;
  bool isAuto() const { return options_->schedule == "auto"; }
  bool isTraining() const { return options_->mode == Mode::Train; }
  bool areCutsGiven(const Model &model) const;
  llvm::Error checkAsked(const Model &model) const;
  llvm::Error planTraining(const Model &model, const std::optional<std::vector<size_t>> &given);
  std::vector<size_t> stageCounts() const;
  ForwardProblem forwardProblem(size_t ranks, const Signature &signature) const;
  std::string whyFewerRanks(const Plan &plan) const;
  bool isCutByCost(const Model &model) const;
  size_t ranks(const Model &model) const; // as many as will be at work, as far as known yet
  ClusterDevice leastDevice(Model &model) const;
  void sayWhatDiffers(CutRequest &request) const;

  const CompileOptions *options_ = nullptr;
  Cluster cluster_;
  std::optional<CutPlan> planned_;
  std::shared_ptr<const PlannedTraining> training_;
  CostTable table_;
  int64_t memoryBytes_ = 0; // of the device that stages are planned for; 0: no limit
  bool cutsGiven_ = false, cutsByCost_ = false, costsKnown_ = false, ofThisRun_ = false;
};

} // namespace pipec
