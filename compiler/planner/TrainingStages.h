// A model for training as a table of its operators' costs, and the pipelines that it can be cut
// into, as work for the search over schedules.
#pragma once

#include "compiler/planner/StagedWork.h"
#include "ir/costs/Cluster.h"
#include "ir/costs/CostTable.h"

#include <map>

namespace pipec {

/// The optimizer's memory and traffic, in tensors like a trained weight.
struct OptimizerCosts {
  int64_t states = 2; // beside the weight and its gradient: AdamW has two
  /// Read and written after the backwards, operator by operator as runtime/training/Adam.cpp runs
  /// them: 1 for the norm, 2 for the decay, 3 for the average, 2 + 3 for the squares, 2 for each of
  /// root, quotient and sum, 4 for the weight.
  int64_t moved = 21;
};

struct TrainingProblem {
  CostTable table;
  size_t ranks = 1;
  Cluster cluster;         // rank r is on its device r modulo their number; times are those of its
                           // slowest device
  int64_t memoryLimit = 0; // of every device; 0: the cluster's limits
  OptimizerCosts optimizer;
  std::map<std::string, Tie::Mode> tied{}; // of shared weights by name; has precedence over a point
  bool splitBackward = true; // false: I takes the time of the whole backward and frees all, and W
                             // takes none

  /// Bytes of a rank's device; 0: no limit.
  int64_t memoryOf(size_t rank) const;
  /// Number of ranks on a rank's device, which share its memory.
  int64_t sharing(size_t rank) const;
};

/// The begins of stages and how they run: one point of the joint search.
struct TrainingPoint {
  Placement placement = Placement::Loop;
  size_t chunks = 1;
  std::vector<size_t> boundaries; // the first operators of all stages but the first
  int64_t microBatches = 1;
  double share = 1; // size as a part of the table's micro-batch: times and activations are
                    // proportional
  Tie::Mode tied = Tie::Mode::Replicate; // mode of weights that several stages read
  bool operator==(const TrainingPoint &) const = default;
};

/// Computes sums over intervals of the model in constant time, and whole pipelines.
class TrainingStages {
public:
  explicit TrainingStages(const TrainingProblem &problem);

  /// Operators before which a cut is legal, ascending.
  const std::vector<size_t> &places() const { return places_; }
  size_t operators() const { return problem_.table.rows.size(); }
  bool hasGradient(size_t op) const { return hasGradient_[op]; } // its results have gradients
  /// Whether there are shared weights whose mode only a point determines.
  bool sharesFreely() const;
  const TrainingProblem &problem() const { return problem_; }
  double slownessOf(size_t rank) const { return slow_[rank]; }
  /// The rank's part of its device's memory; absent: no limit.
  std::optional<int64_t> limitOf(size_t rank) const;

  /// For the operators [begin, end), for a whole micro-batch of the table, on the slowest device.
  double forwardNs(size_t begin, size_t end) const { return forward_[end] - forward_[begin]; }
  double workNs(size_t begin, size_t end) const { return work_[end] - work_[begin]; }
  double keptBytes(size_t begin, size_t end) const { return kept_[end] - kept_[begin]; }
  /// Weights, their gradients and the optimizer's states. A shared weight counts for its first
  /// reader.
  double fixedBytes(size_t begin, size_t end) const { return fixed_[end] - fixed_[begin]; }
  /// Time to update the trained weights, on the device that does it fastest for its slowness.
  double updateNs(size_t begin, size_t end) const { return update_[end] - update_[begin]; }
  /// Results of operators before `begin` that later operators read.
  double crossingBytes(size_t begin) const { return crossing_[begin]; }

  /// The pipeline of a point. A stage keeps the values that its operators' backwards need, and its
  /// received values; with recompute only the latter. I leaves what W needs. Operators to which no
  /// received value leads run backward in W, as in a run, unless they stand between two results; if
  /// no received value leads to a result, as in stage 0, all do. A rank permanently holds its
  /// weights, their gradients and the optimizer's states, its own copy of shared weights or the
  /// received ones, and room for the largest result and its gradient.
  StagedWork workOf(const TrainingPoint &point) const;

  /// Per rank: the memory that every schedule of the work needs, with any recompute. It is the
  /// memory held while one micro-batch goes back through the rank's largest stage.
  static std::vector<int64_t> leastBytes(const StagedWork &work);

private:
  /// The backward of the operators [begin, end), as times of I and W and the bytes that W needs.
  struct BackwardParts {
    int64_t inputGradNs = 0, weightGradNs = 0, pendingBytes = 0;
  };
  BackwardParts partsOf(size_t begin, size_t end) const;
  bool leadsToReceived(size_t begin, size_t end) const;
  bool isMadeFor(size_t end, size_t op) const;
  void addShared(const TrainingPoint &point, const std::vector<uint32_t> &stageOf, StagedWork &work,
                 std::vector<int64_t> &trained) const;
  void addChannels(const TrainingPoint &point, const std::vector<uint32_t> &stageOf,
                   StagedWork &work) const;
  void connect(StagedWork &work) const;
  int64_t updateNs(size_t rank, int64_t trainedBytes) const;

  const TrainingProblem &problem_;
  std::vector<size_t> places_;
  std::vector<double> slow_; // per rank
  // Sums over the operators before each.
  std::vector<double> forward_, work_, kept_, fixed_, update_;
  std::vector<double> crossing_;
  std::vector<bool> hasGradient_; // per operator: its results have gradients
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<size_t> firstPending_; // per operator: the first that reads its results for W
};

} // namespace pipec
