// What a stage needs in memory, for stages that are stretches of a list of operators: the weights
// that they read, and the most bytes that results need at once.
#pragma once

#include "compiler/cost/EvaluateGraph.h"
#include "compiler/cost/WeightStorages.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec {

/// Weights that several stages read count for each of them: each has a copy, or room for one that
/// is sent. A longer stretch never needs less.
class StageMemory {
public:
  /// outputBytes: of each operator. Any thread.
  StageMemory(const OperatorGraph &graph, const std::vector<WeightStorage> &weights,
              std::vector<int64_t> outputBytes);

  /// Of the stages that begin at these operators and at the first.
  std::vector<int64_t> weightsOf(const std::vector<size_t> &boundaries) const;
  /// Results are alive from their making to their last reader in the stage, those of earlier
  /// stages from its beginning.
  std::vector<int64_t> resultsOf(const std::vector<size_t> &boundaries) const;

  /// For each operator the first one with which a stage may begin that ends with it and needs at
  /// most `limit` bytes; its successor where it alone needs more. n log n time.
  std::vector<uint32_t> firstBegins(int64_t limit) const;

  /// The least limit for which at most `stages` stages do, cut before `legal` operators.
  int64_t least(const std::vector<size_t> &legal, size_t stages) const;

private:
  size_t size() const { return outputBytes_.size(); }
  bool doesFor(int64_t limit, const std::vector<size_t> &legal, size_t stages) const;

  std::vector<int64_t> outputBytes_;
  std::vector<std::vector<uint32_t>> reads_, weights_; // per operator: makers, storages
  std::vector<int64_t> storageBytes_;
};

} // namespace pipec
