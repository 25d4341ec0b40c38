// Orders of all items that respect the dependencies: the chains that heuristics cut.
#pragma once

#include "compiler/planner/Items.h"

namespace pipec {

enum class OrderRule {
  Number,      // lowest item first
  DepthFirst,  // the item that became ready last
  LastInFirst, // depth first from the end, reversed
};

/// All items; deterministic.
std::vector<uint32_t> orderItems(const Items &items, OrderRule rule);

} // namespace pipec
