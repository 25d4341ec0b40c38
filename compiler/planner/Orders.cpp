#include "compiler/planner/Orders.h"

#include <algorithm>
#include <numeric>

namespace pipec {

std::vector<uint32_t> orderItems(const Items &items, OrderRule rule) {
  std::vector<uint32_t> order;
  if (rule == OrderRule::Number) {
    order.resize(items.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  const bool reverse = rule == OrderRule::LastInFirst;
  const RowTable &next = reverse ? items.before : items.after;
  const RowTable &previous = reverse ? items.after : items.before;
  std::vector<uint32_t> waits(items.size()), ready;
  for (uint32_t item = 0; item < items.size(); ++item) {
    waits[item] = static_cast<uint32_t>(previous[item].size());
    if (waits[item] == 0)
      ready.push_back(item);
  }
  while (!ready.empty()) {
    const uint32_t item = ready.back();
    ready.pop_back();
    order.push_back(item);
    for (uint32_t other : next[item])
      if (--waits[other] == 0)
        ready.push_back(other);
  }
  if (reverse)
    std::reverse(order.begin(), order.end());
  return order;
}

} // namespace pipec
