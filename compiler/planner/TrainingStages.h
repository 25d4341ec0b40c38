// A model that is to be trained, as a table of its operators' costs, and the pipelines that it can
// be cut into, as work for the search over schedules.
#pragma once

#include "compiler/planner/StagedWork.h"
#include "ir/plan/Cluster.h"
#include "ir/plan/CostTable.h"

#include <map>

namespace pipec {

/// What an optimizer keeps and moves for every byte of a trained weight.
struct OptimizerCosts {
  int64_t states = 2; // tensors like the weight, beside it and its gradient: AdamW has two

  /// Weight and gradient are read, the weight is written; states are read and written.
  int64_t moved() const { return 3 + 2 * states; }
};

struct TrainingProblem {
  CostTable table;
  size_t ranks = 1;
  Cluster cluster;         // rank r is its device r, round and round; times are its least device's
  int64_t memoryLimit = 0; // of every device; 0: as the cluster says
  OptimizerCosts optimizer;
  std::map<std::string, Tie::Mode> tied{}; // of shared weights by name, whatever a point says

  /// Bytes of a rank's device; 0: no limit.
  int64_t memoryOf(size_t rank) const;
  /// Ranks on a rank's device: they share its memory.
  int64_t sharing(size_t rank) const;
};

/// Where stages begin, and how they run: one point of the joint search.
struct TrainingPoint {
  Placement placement = Placement::Loop;
  size_t chunks = 1;
  std::vector<size_t> boundaries; // operators that stages but the first begin with
  int64_t microBatches = 1;
  double share = 1; // of the table's micro-batch: times and activations are proportional
  Tie::Mode tied = Tie::Mode::Replicate; // of weights that several stages read
  bool operator==(const TrainingPoint &) const = default;
};

/// Sums over stretches of the model in constant time, and whole pipelines.
class TrainingStages {
public:
  explicit TrainingStages(const TrainingProblem &problem);

  /// Operators before which a cut may be, ascending.
  const std::vector<size_t> &places() const { return places_; }
  size_t operators() const { return problem_.table.rows.size(); }
  bool hasGradient(size_t op) const { return hasGradient_[op]; } // its results have
  /// Shared weights of which only a point says how they are kept.
  bool sharesFreely() const;
  const TrainingProblem &problem() const { return problem_; }
  double slownessOf(size_t rank) const { return slow_[rank]; }
  /// Bytes of a rank's device that are its; nothing: no limit.
  std::optional<int64_t> limitOf(size_t rank) const;

  /// Of the operators [begin, end), for a whole micro-batch of the table, on the least device.
  double forwardNs(size_t begin, size_t end) const { return forward_[end] - forward_[begin]; }
  double workNs(size_t begin, size_t end) const { return work_[end] - work_[begin]; }
  double keptBytes(size_t begin, size_t end) const { return kept_[end] - kept_[begin]; }
  /// Weights, their gradients and the optimizer's states; a shared weight is its first reader's.
  double fixedBytes(size_t begin, size_t end) const { return fixed_[end] - fixed_[begin]; }
  /// Of updating its trained weights, on the device that does it fastest for its slowness.
  double updateNs(size_t begin, size_t end) const { return update_[end] - update_[begin]; }
  /// Results of operators before `begin` that others after it read.
  double crossingBytes(size_t begin) const { return crossing_[begin]; }

  /// The pipeline of a point. A stage keeps what its operators' backwards need and what it
  /// received; with recompute only that. A rank holds all the time its weights, their gradients and
  /// the optimizer's states, a copy of its own of shared weights or what it is sent of them, and
  /// room for the largest result and its gradient.
  StagedWork workOf(const TrainingPoint &point) const;

  /// Per rank: no schedule of the work needs less, whatever is recomputed. What it holds while one
  /// micro-batch goes back through its largest stage.
  static std::vector<int64_t> leastBytes(const StagedWork &work);

private:
  void addShared(const TrainingPoint &point, const std::vector<uint32_t> &stageOf, StagedWork &work,
                 std::vector<int64_t> &trained) const;
  void addChannels(const TrainingPoint &point, const std::vector<uint32_t> &stageOf,
                   StagedWork &work) const;
  void connect(StagedWork &work) const;
  int64_t updateNs(size_t rank, int64_t trainedBytes) const;

  const TrainingProblem &problem_;
  std::vector<size_t> places_;
  std::vector<double> slow_; // per rank
  // Sums of the operators before each.
  std::vector<double> forward_, work_, kept_, fixed_, update_;
  std::vector<double> crossing_;
  std::vector<bool> hasGradient_; // per operator: its results have gradients
  std::vector<std::vector<uint32_t>> readers_;
};

} // namespace pipec
