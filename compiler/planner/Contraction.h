// Groups items that some best partition keeps together anyway. Fewer items have far fewer ideals.
#pragma once

#include "compiler/planner/Items.h"

namespace pipec {

/// Joins every item that has no work, no memory (or memory that cannot bind) and only one neighbour
/// to that neighbour: moving it there never increases a load. Returns true if something was joined.
bool joinFreeLeaves(const PartitionProblem &problem, const Items &items, Groups &groups);

/// Joins an item to one that it may always follow to its stage (of what comes before it only that
/// one's own predecessors are left, or likewise after it), where this never makes a load larger:
/// its time and the nets that the other is not in weigh no more than what passes between just the
/// two. True: something was joined.
bool joinFollowers(const PartitionProblem &problem, const Items &items, Groups &groups);

/// Joins items that no partition with every load below `threshold` has on two devices: whatever the
/// kinds of the two, one would have its own item's time and the transfers between the two to do,
/// which is not below. True: something was joined.
bool joinInseparable(const PartitionProblem &problem, const Items &items, double threshold,
                     Groups &groups);

/// A lower bound on the largest load of contiguous partitions, at most `upper`: the largest
/// threshold for which joining inseparable items leaves more work, or a larger item, than fits
/// below it.
double contractionBound(const PartitionProblem &problem, const Groups &groups, double lower,
                        double upper);

} // namespace pipec
