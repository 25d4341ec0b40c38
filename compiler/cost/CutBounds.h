// What no cut of a model can do without, whatever the order of its operators.
#pragma once

#include "compiler/planner/Partition.h"

namespace pipec {

/// Of so many devices of the first kind: an equal share, the largest class, and with `transfers`
/// the cheapest result that can cross a cut.
double simpleBound(const PartitionProblem &problem, size_t stages, bool transfers = true);

} // namespace pipec
