// Groups items that some best partition keeps together anyway. Fewer items have far fewer ideals.
#pragma once

#include "compiler/planner/Items.h"

namespace pipec {

/// Joins an item to its only neighbour if the item has no work and no memory that could exceed a
/// limit. Moving such an item never increases a load. Returns true if any items were joined.
bool joinFreeLeaves(const PartitionProblem &problem, const Items &items, Groups &groups);

/// Joins an item to another one that it can always move to. The order allows the move if every
/// predecessor of the item, other than the target, is a predecessor of the target, or if the same
/// holds for successors. No load grows if the item's time and the nets without the target weigh no
/// more than the nets of only these two. Returns true if any items were joined.
bool joinFollowers(const PartitionProblem &problem, const Items &items, Groups &groups);

/// Joins two items that share a device in every partition whose loads are all below `threshold`. On
/// two devices of any kinds, one of them would have the time of its item and the transfers between
/// the two, which reach the threshold. Returns true if any items were joined.
bool joinInseparable(const PartitionProblem &problem, const Items &items, double threshold,
                     Groups &groups);

/// A lower bound on the largest load of contiguous partitions, at most `upper`: the largest
/// threshold at which, after inseparable items are joined, the whole work or one item does not fit
/// below it.
double contractionBound(const PartitionProblem &problem, const Groups &groups, double lower,
                        double upper);

} // namespace pipec
