// For the lowering: does a compute schedule fit a plan?
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Every action that the run needs once, on the rank where the plan has its stage, and no other.
/// Errors: Usage naming the first that does not fit.
llvm::Error checkFit(const Schedule &schedule, const Plan &plan, const RunShape &shape);

} // namespace pipec
