#include "passes/support/LinearPartition.h"

#include "passes/analysis/TopLevel.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Weight of the traffic of an average boundary against one stage that costs the mean.
constexpr double kTrafficWeight = 0.05;

class Partitioner {
public:
  Partitioner(const std::vector<int64_t> &costs, const std::vector<size_t> &legal, size_t stages)
      : stages_(stages) {
    std::vector<int64_t> prefix(costs.size() + 1, 0);
    std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
    // Candidates: start, the legal boundaries, end.
    at_.push_back(0);
    for (size_t boundary : legal)
      at_.push_back(prefix[boundary]);
    at_.push_back(prefix.back());
  }

  /// Smallest cost of the slowest stage.
  int64_t bestBound() const {
    int64_t low = 0, high = at_.back();
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (feasible(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  /// Candidate indices (1-based into legal) of the best boundaries whose stages cost `bound` at
  /// most. traffic: one weight per candidate.
  std::vector<size_t> best(int64_t bound, std::vector<double> traffic) {
    bound_ = bound;
    traffic_ = std::move(traffic);
    size_t n = at_.size();
    previous_.assign(n, kInfinity);
    previous_[0] = 0;
    from_.assign(stages_ + 1, std::vector<size_t>(n, 0));
    for (size_t stage = 1; stage <= stages_; ++stage) {
      next_.assign(n, kInfinity);
      fill(stage, stage, n - 1, stage - 1, n - 2);
      previous_ = next_;
    }
    std::vector<size_t> result;
    size_t j = n - 1;
    for (size_t stage = stages_; stage > 1; --stage) {
      j = from_[stage][j];
      result.push_back(j);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

private:
  /// Greedy with as few stages as possible; more stages are always possible while boundaries are
  /// left.
  bool feasible(int64_t bound) const {
    size_t used = 1;
    int64_t start = 0;
    for (size_t j = 1; j < at_.size(); ++j) {
      if (at_[j] - at_[j - 1] > bound)
        return false;
      if (at_[j] - start > bound) {
        ++used;
        start = at_[j - 1];
      }
    }
    return used <= stages_;
  }

  double segment(size_t i, size_t j) const {
    if (at_[j] - at_[i] > bound_)
      return kInfinity;
    double share = static_cast<double>(at_[j] - at_[i]) * static_cast<double>(stages_) /
                   std::max(1.0, static_cast<double>(at_.back()));
    return share * share + traffic_[j];
  }

  /// The best previous boundary never moves back as j grows (squares satisfy the quadrangle
  /// inequality, a bound on the length keeps it, and traffic depends on j alone): solve the middle,
  /// then each half with half of the candidates.
  void fill(size_t stage, size_t first, size_t last, size_t low, size_t high) {
    if (first > last || last >= at_.size())
      return;
    size_t middle = first + (last - first) / 2;
    size_t bestFrom = low;
    for (size_t i = low; i <= std::min(high, middle - 1); ++i) {
      double value = previous_[i] + segment(i, middle);
      if (value < next_[middle]) {
        next_[middle] = value;
        bestFrom = i;
      }
    }
    from_[stage][middle] = bestFrom;
    bool found = next_[middle] < kInfinity;
    if (middle > first)
      fill(stage, first, middle - 1, low, found ? bestFrom : high);
    fill(stage, middle + 1, last, found ? bestFrom : low, high);
  }

  size_t stages_;
  int64_t bound_ = 0;
  std::vector<int64_t> at_;
  std::vector<double> traffic_, previous_, next_;
  std::vector<std::vector<size_t>> from_;
};

/// Bytes of the values alive across each boundary; values of unknown size count one byte.
std::vector<int64_t> trafficOf(const Model &model, const TopLevel &top) {
  size_t n = top.operators.size();
  std::vector<std::vector<size_t>> lastUses =
      lastUsesOf(top); // an output of the model leaves from where it is made
  std::vector<int64_t> change(n + 2, 0);
  for (size_t i = 0; i < n; ++i) {
    int64_t bytes =
        model.nodeCosts.empty() ? 1 : std::max<int64_t>(1, model.nodeCosts[i].outputBytes);
    for (size_t last : lastUses[i]) {
      change[i + 1] += bytes;
      change[last + 1] -= bytes;
    }
  }
  std::vector<int64_t> traffic(n + 1, 0);
  int64_t sum = 0;
  for (size_t i = 0; i <= n; ++i)
    traffic[i] = sum += change[i];
  return traffic;
}

} // namespace

llvm::Expected<std::vector<size_t>> partitionLinear(const std::vector<int64_t> &costs,
                                                    const std::vector<int64_t> &traffic,
                                                    const std::vector<size_t> &legal, size_t stages,
                                                    double slack) {
  if (legal.size() + 1 < stages) // callers ask CutLegality first, which knows what blocks
    return failf(ExitCode::NoPlan, "stages: expected at most {}, one more than legal cuts, got {}",
                 legal.size() + 1, stages);
  std::vector<double> weights(1, 0.0);
  double sum = 0;
  for (size_t boundary : legal)
    sum += static_cast<double>(traffic[boundary]);
  for (size_t boundary : legal)
    weights.push_back(sum > 0 ? kTrafficWeight * static_cast<double>(traffic[boundary]) *
                                    static_cast<double>(legal.size()) / sum
                              : 0.0);
  weights.push_back(0.0);
  Partitioner partitioner(costs, legal, stages);
  int64_t least = partitioner.bestBound();
  auto bound = std::max(least, static_cast<int64_t>(static_cast<double>(least) * (1 + slack)));
  std::vector<size_t> boundaries;
  for (size_t candidate : partitioner.best(bound, std::move(weights)))
    boundaries.push_back(legal[candidate - 1]);
  return boundaries;
}

llvm::Expected<std::vector<size_t>> partitionByCost(const Model &model, const TopLevel &top,
                                                    const std::vector<size_t> &legal,
                                                    size_t stages) {
  std::vector<int64_t> costs;
  for (const NodeCost &cost : model.nodeCosts)
    costs.push_back(cost.flops);
  return partitionLinear(costs, trafficOf(model, top), legal, stages);
}

} // namespace pipec
