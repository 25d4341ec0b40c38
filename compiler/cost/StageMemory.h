// The memory of stages that are intervals of a list of operators: their weights, and the peak bytes
// of their results.
#pragma once

#include "compiler/cost/OperatorGraph.h"
#include "compiler/cost/WeightStorages.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// Weights that several stages read count for each of them: each has a copy, or room for a received
/// one. A longer interval never needs less.
class StageMemory {
public:
  /// outputBytes: of each operator. Any thread.
  StageMemory(const OperatorGraph &graph, const std::vector<WeightStorage> &weights,
              std::vector<int64_t> outputBytes);

  /// Weights of the stages that begin at the first operator and at these.
  std::vector<int64_t> weightsOf(const std::vector<size_t> &boundaries) const;
  /// Peak bytes of results. A result lives until its last reader in the stage; results of earlier
  /// stages live from the stage's beginning.
  std::vector<int64_t> resultsOf(const std::vector<size_t> &boundaries) const;

  /// For each operator: the first operator at which a stage can begin that ends with it and needs
  /// at most `limit` bytes, or its successor if it alone needs more. n log n time.
  std::vector<uint32_t> firstBegins(int64_t limit) const;

  /// The least limit for which at most `stages` stages suffice, cut before `legal` operators.
  int64_t least(const std::vector<size_t> &legal, size_t stages) const;

private:
  size_t size() const { return outputBytes_.size(); }
  bool doesFor(int64_t limit, const std::vector<size_t> &legal, size_t stages) const;

  std::vector<int64_t> outputBytes_;
  std::vector<std::vector<uint32_t>> reads_, weights_; // per operator: makers, storages
  std::vector<int64_t> storageBytes_;
};

} // namespace pipec
