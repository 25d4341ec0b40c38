// The cost of one stage between two ideals, for the search over chains of them: times, memory, and
// whether some choice of variants keeps both.
#pragma once

#include "compiler/planner/Ideals.h"
#include "compiler/planner/hybrid/Hybrid.h"
#include "compiler/planner/hybrid/VariantChoice.h"

#include <map>
#include <optional>
#include <unordered_map>

namespace pipec {

/// Sums of floating-point numbers in another order differ by less than this part.
constexpr double kHybridSlack = 1e-12;

/// The nodes in `ideal` and not in `next`, on copies * degree devices.
struct HybridStageKey {
  uint32_t ideal, next, degree;
  int64_t copies, inFlight; // micro-batches
  bool operator==(const HybridStageKey &) const = default;
};

/// Problem, items and ideals must outlive it. It remembers each stage that it has evaluated.
class HybridStages {
public:
  HybridStages(const HybridProblem &problem, const Items &items, const Ideals &ideals);

  /// Tensor degrees that every node has, ascending.
  const std::vector<uint32_t> &degrees() const { return degrees_; }
  /// Time * devices of the ideal's nodes, at least.
  double work(uint32_t ideal) const { return work_[ideal]; }
  /// Time of a stage without transfers, at least.
  double leastTime(const HybridStageKey &key) const;

  /// Of a device. Forgets what was found out with another limit.
  void limitMemory(double bytes);
  double memoryLimit() const { return memory_; }

  /// Does some choice of variants keep time and memory? Unknown: it would take too many steps.
  ChoiceAnswer fits(const HybridStageKey &key, double threshold);

  /// The nodes of a stage that fits `threshold`, and a variant for each. Unknown as above.
  ChoiceAnswer rebuild(const HybridStageKey &key, double threshold, HybridStage &stage);

private:
  /// The least cost of a tensor degree, summed over an ideal's nodes.
  struct Sums {
    std::vector<double> time, parameters, inFlight, fixed; // per ideal
  };
  /// The nodes between two ideals and what crosses their border.
  struct Pair {
    uint32_t ideal, next;
    std::vector<uint32_t> nodes;
    double bytes = 0;                            // over all crossing edges
    std::vector<std::vector<uint32_t>> crossing; // per node: edges
  };
  struct KeyHash {
    size_t operator()(const HybridStageKey &key) const;
  };

  template <typename F> std::vector<double> sumOverIdeals(F &&of) const;
  const Pair &pairOf(uint32_t ideal, uint32_t next);
  double price(const HybridStageKey &key);
  ChoiceAnswer choose(const HybridStageKey &key, double threshold, std::vector<uint32_t> &choice);

  const HybridProblem &problem_;
  const Items &items_;
  const Ideals &ideals_;
  std::vector<uint32_t> degrees_;
  std::map<uint32_t, Sums> sums_;                                                // per degree
  std::map<uint32_t, std::vector<const std::vector<HybridVariant> *>> variants_; // and node
  std::vector<double> work_;                                                     // per ideal
  std::vector<std::vector<uint32_t>> edgesOf_;                                   // per node
  double memory_ = kUnlimited;
  std::optional<Pair> pair_; // the last one
  VariantTable table_;
  /// Between which the time of a stage lies; a threshold between them narrows it.
  std::unordered_map<HybridStageKey, ChoiceBounds, KeyHash> known_;
};

} // namespace pipec
