// Checks that costs belong to this program and plan.
#pragma once

#include "ir/schedule/Simulate.h"

namespace pipec {

/// Lists must be empty or of the plan's length, and every named link must exist. Errors: Usage with
/// both numbers.
llvm::Error checkCosts(const Program &program, const Plan &plan, const ProgramCosts &costs);

} // namespace pipec
