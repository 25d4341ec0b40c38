// For the lowering: whether a compute schedule fits a plan.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Checks that the schedule has every action of the run exactly once, on the rank of its stage in
/// the plan, and no other action, and that stages that write state run forward in the order of
/// micro-batches. Errors: Usage naming the first that does not fit.
llvm::Error checkFit(const Schedule &schedule, const Plan &plan, const RunShape &shape);

} // namespace pipec
