#include "passes/support/CutsByCost.h"

#include "ir/support/Check.h"
#include "ir/support/ListCut.h"
#include "passes/analysis/TopLevel.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Weight of the traffic of an average boundary against one stage that costs the mean.
constexpr double kTrafficWeight = 0.05;

/// Bytes of the values alive across each boundary; values of unknown size count one byte.
std::vector<int64_t> trafficOf(const TopLevel &top, const std::vector<NodeCost> &costs) {
  size_t n = top.operators.size();
  std::vector<std::vector<size_t>> lastUses =
      lastUsesOf(top); // an output of the model leaves from where it is made
  std::vector<int64_t> change(n + 2, 0);
  for (size_t i = 0; i < n; ++i) {
    int64_t bytes = costs.empty() ? 1 : std::max<int64_t>(1, costs[i].outputBytes);
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

/// Per legal boundary.
std::vector<double> weightsOf(const std::vector<int64_t> &traffic,
                              const std::vector<size_t> &legal) {
  double sum = 0;
  for (size_t boundary : legal)
    sum += static_cast<double>(traffic[boundary]);
  std::vector<double> weights;
  for (size_t boundary : legal)
    weights.push_back(sum > 0 ? kTrafficWeight * static_cast<double>(traffic[boundary]) *
                                    static_cast<double>(legal.size()) / sum
                              : 0.0);
  return weights;
}

} // namespace

llvm::Expected<std::vector<size_t>> cutsByCost(const std::vector<int64_t> &costs,
                                               const std::vector<int64_t> &traffic,
                                               const std::vector<size_t> &legal, size_t stages,
                                               double slack) {
  if (legal.size() + 1 < stages) // callers ask CutLegality first, which knows what blocks
    return failf(ExitCode::NoPlan, "stages: expected at most {}, one more than legal cuts, got {}",
                 legal.size() + 1, stages);
  // The items of the list are the operators between two legal boundaries; at[i] is the cost of all
  // operators before item i.
  std::vector<int64_t> prefix(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
  std::vector<int64_t> at = {0};
  for (size_t boundary : legal)
    at.push_back(prefix[boundary]);
  at.push_back(prefix.back());
  auto costOf = [&](size_t begin, size_t end) { return at[end] - at[begin]; };
  auto ofPart = [&](size_t, size_t begin, size_t end) {
    return static_cast<double>(costOf(begin, end));
  };
  const size_t items = at.size() - 1;
  const std::optional<std::vector<size_t>> best =
      cutList({items, stages, ofPart, ListCut::Least::Largest});
  PIPEC_ASSERT(best, "a list with enough places has a cut");
  int64_t least = 0;
  for (size_t s = 0; s < stages; ++s)
    least = std::max(least, costOf(s ? (*best)[s - 1] : 0, s + 1 < stages ? (*best)[s] : items));
  const auto bound =
      std::max(least, static_cast<int64_t>(static_cast<double>(least) * (1 + slack)));
  std::vector<double> weights = weightsOf(traffic, legal);
  weights.push_back(0); // of the end
  auto unevenness = [&](size_t, size_t begin, size_t end) {
    if (costOf(begin, end) > bound)
      return kInfinity;
    const double share = static_cast<double>(costOf(begin, end)) * static_cast<double>(stages) /
                         std::max(1.0, static_cast<double>(at.back()));
    return share * share + weights[end - 1];
  };
  const std::optional<std::vector<size_t>> even =
      cutList({items, stages, unevenness, ListCut::Least::Sum});
  PIPEC_ASSERT(even, "the best cut is within its bound");
  std::vector<size_t> boundaries;
  for (size_t begin : *even)
    boundaries.push_back(legal[begin - 1]);
  return boundaries;
}

llvm::Expected<std::vector<size_t>> cutsByCost(const TopLevel &top,
                                               const std::vector<NodeCost> &costs,
                                               const std::vector<size_t> &legal, size_t stages) {
  std::vector<int64_t> flops;
  for (const NodeCost &cost : costs)
    flops.push_back(cost.flops);
  return cutsByCost(flops, trafficOf(top, costs), legal, stages);
}

} // namespace pipec
