// Lower bounds for every cut of a model, whatever the order of its operators.
#pragma once

#include "compiler/planner/Partition.h"

namespace pipec {

/// The bound for `stages` devices of the first kind: the maximum of an equal share and the largest
/// class; with `transfers` it includes the cheapest result that can cross a cut.
double simpleBound(const PartitionProblem &problem, size_t stages, bool transfers = true);

} // namespace pipec
