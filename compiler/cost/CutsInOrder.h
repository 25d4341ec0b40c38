// Cuts of a model that keep the order of its operators, by their costs.
#pragma once

#include "compiler/cost/PlanCuts.h"
#include "compiler/cost/StageMemory.h"
#include "compiler/planner/Partition.h"
#include "passes/analysis/CutLegality.h"

namespace pipec {

/// Keeps references to its constructor's arguments. One thread at a time.
class CutsInOrder {
public:
  CutsInOrder(const Model &model, const std::vector<NodeCost> &costs, const CutRequest &request);

  /// The best cut; its lower bound holds for this order. Errors: NoPlan if there are too few
  /// places, or if memory suffices for none.
  llvm::Expected<CutPlan> best() const;
  /// NoPlan with the reason if there are too few places.
  llvm::Error enoughPlaces() const { return legality_.enoughFor(request_.stages - 1); }
  /// The least bytes of a stage for which a cut exists; 0 if nothing is limited.
  int64_t leastMemory() const { return leastMemory(request_.stages); }
  int64_t leastMemory(size_t stages) const; // of at most this many
  /// The limit for the bytes of a stage; INT64_MAX if nothing is limited.
  int64_t limit() const;
  bool isLegal(const std::vector<size_t> &boundaries) const;
  /// Writes times, bytes and channels of the stages that begin at plan.boundaries into the plan.
  void describeStages(CutPlan &plan) const;

  size_t size() const { return graph_.operators.size(); }
  size_t places() const { return legal_.size(); }
  /// The partition problem, with its own order and one device of the same kind per stage.
  const PartitionProblem &problem() const { return problem_; }

private:
  void makeProblem();
  std::vector<uint32_t> stagesOf(const std::vector<size_t> &boundaries) const;
  double bottleneck(const std::vector<size_t> &boundaries) const;          // ns
  std::vector<int64_t> needs(const std::vector<size_t> &boundaries) const; // bytes per stage
  bool fits(const std::vector<size_t> &boundaries) const;
  /// Splits the longest divisible stage until the requested count is reached.
  std::vector<size_t> filled(std::vector<size_t> boundaries) const;

  const std::vector<NodeCost> &costs_;
  const CutRequest &request_;
  TopLevel top_;
  CutLegality legality_;
  std::vector<size_t> legal_;
  OperatorGraph graph_;
  std::vector<WeightStorage> weights_;
  StageMemory memory_;
  PartitionProblem problem_;
};

} // namespace pipec
