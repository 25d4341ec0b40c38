#include "compiler/planner/Orders.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace pipec {

namespace {

/// Weight that the cut gains when an item joins those inside, given how many members of each net
/// are.
double cutChange(const Items &items, const std::vector<uint32_t> &inside, uint32_t item) {
  double change = 0;
  for (uint32_t net : items.netsOf[item]) {
    if (inside[net] == 0)
      change += items.netWeight[net];
    if (inside[net] + 1 == items.netMembers[net].size())
      change -= items.netWeight[net];
  }
  return change;
}

/// Index into `ready` of the item to take.
size_t choose(const Items &items, OrderRule rule, const std::vector<uint32_t> &ready,
              const std::vector<uint32_t> &priority, const std::vector<uint32_t> &inside) {
  if (rule == OrderRule::DepthFirst || rule == OrderRule::LastInFirst)
    return ready.size() - 1;
  size_t best = 0;
  double bestChange = kUnlimited;
  for (size_t i = 0; i < ready.size(); ++i) {
    if (rule == OrderRule::LeastCut) {
      double change = cutChange(items, inside, ready[i]);
      if (change < bestChange) {
        bestChange = change;
        best = i;
      }
    } else if (priority[ready[i]] < priority[ready[best]]) {
      best = i;
    }
  }
  return best;
}

} // namespace

std::vector<uint32_t> orderItems(const Items &items, OrderRule rule, uint64_t seed) {
  std::vector<uint32_t> priority(items.size());
  std::iota(priority.begin(), priority.end(), 0);
  if (rule == OrderRule::Number)
    return priority;
  if (rule == OrderRule::Random)
    std::shuffle(priority.begin(), priority.end(), std::mt19937_64(seed));
  bool reverse = rule == OrderRule::LastInFirst;
  const RowTable &next = reverse ? items.before : items.after;
  std::vector<uint32_t> waits(items.size()), inside(items.netWeight.size(), 0), order;
  for (uint32_t item = 0; item < items.size(); ++item)
    waits[item] = static_cast<uint32_t>((reverse ? items.after : items.before)[item].size());

  // Segment by segment; in the reverse direction from the last.
  size_t segments = items.segmentEnd.size();
  for (size_t step = 0; step < segments; ++step) {
    size_t segment = reverse ? segments - 1 - step : step;
    uint32_t first = segment ? items.segmentEnd[segment - 1] : 0;
    std::vector<uint32_t> ready;
    for (uint32_t item = first; item < items.segmentEnd[segment]; ++item)
      if (waits[item] == 0)
        ready.push_back(item);
    while (!ready.empty()) {
      size_t at = choose(items, rule, ready, priority, inside);
      uint32_t item = ready[at];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
      order.push_back(item);
      for (uint32_t net : items.netsOf[item])
        ++inside[net];
      for (uint32_t other : next[item])
        if (--waits[other] == 0 && items.segment[other] == segment)
          ready.push_back(other);
    }
  }
  if (reverse)
    std::reverse(order.begin(), order.end());
  return order;
}

} // namespace pipec
