// Cuts a list: the best stages for a given order of the items.
#pragma once

#include "compiler/planner/Items.h"

namespace pipec {

struct SliceLimits {
  size_t kind = 0;         // all stages on devices of this kind
  size_t stages = 1;       // at most
  double tolerance = 1e-9; // relative distance of the result from the best
  /// Per item of the order: the first item at which a stage can begin that ends with it; empty:
  /// any.
  std::vector<uint32_t> firstBegins;
};

struct Slices {
  std::vector<uint32_t> ends; // ends of the stages, ascending; empty: none fit
  double bottleneck = kUnlimited;
  double lowerBound = 0; // of all cuts of this order
};

/// The cut of an order with the smallest largest load, under memory. Exact for what
/// the problem says about transfers: a tensor that only passes a stage costs that stage nothing.
/// O((items + net members) log(1 / tolerance)) time typically, linear memory.
Slices sliceOrder(const PartitionProblem &problem, const Items &items,
                  const std::vector<uint32_t> &order, const SliceLimits &limits);

} // namespace pipec
