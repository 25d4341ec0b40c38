// Cuts of a model's operators in the order that they have, by model.nodeCosts.
#pragma once

#include "compiler/cost/PlanCuts.h"
#include "compiler/cost/StageMemory.h"
#include "compiler/planner/Partition.h"
#include "passes/analysis/CutLegality.h"

namespace pipec {

/// Keeps references to what it is made of. One thread at a time.
class CutsInOrder {
public:
  CutsInOrder(const Model &model, const CutRequest &request);

  /// The best cut; its lower bound is that of this order. Errors: NoPlan where there are too few
  /// places, or none that the memory does for.
  llvm::Expected<CutPlan> best() const;
  /// NoPlan, and why, where there are too few places.
  llvm::Error enoughPlaces() const { return legality_.enoughFor(request_.stages - 1); }
  /// Bytes of a stage with which there is a cut; 0 where nothing is limited.
  int64_t leastMemory() const;
  /// Bytes of a stage; INT64_MAX where nothing is limited.
  int64_t limit() const;
  bool isLegal(const std::vector<size_t> &boundaries) const;
  /// Writes times, bytes and channels of the stages that begin at plan.boundaries into the plan.
  void describeStages(CutPlan &plan) const;

  size_t size() const { return graph_.operators.size(); }
  size_t places() const { return legal_.size(); }
  /// The partitioner's question, with an order of its own and one device like another per stage.
  const PartitionProblem &problem() const { return problem_; }

private:
  void makeProblem();
  std::vector<uint32_t> stagesOf(const std::vector<size_t> &boundaries) const;
  double bottleneck(const std::vector<size_t> &boundaries) const;          // ns
  std::vector<int64_t> needs(const std::vector<size_t> &boundaries) const; // bytes per stage
  bool fits(const std::vector<size_t> &boundaries) const;
  /// As many stages as were asked for: the longest that can be is halved until there are.
  std::vector<size_t> filled(std::vector<size_t> boundaries) const;

  const Model &model_;
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
