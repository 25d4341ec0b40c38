// Are costs those of this program and plan?
#pragma once

#include "ir/schedule/Simulate.h"

namespace pipec {

/// Lists are empty or of the plan's length, links that are named are there. Errors: Usage with both
/// numbers.
llvm::Error checkCosts(const Program &program, const Plan &plan, const ProgramCosts &costs);

} // namespace pipec
