// Orders of all items that respect what comes after what: the chains that heuristics cut.
#pragma once

#include "compiler/planner/Items.h"

namespace pipec {

enum class OrderRule {
  Number,      // lowest item first
  DepthFirst,  // what became ready last
  LastInFirst, // depth first from the end, reversed
  LeastCut,    // what keeps the weight of the cut nets least
  Random,      // by a random priority of the seed
};

/// All items; deterministic.
std::vector<uint32_t> orderItems(const Items &items, OrderRule rule, uint64_t seed = 0);

} // namespace pipec
