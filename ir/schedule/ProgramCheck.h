// Whether a program can run, judged from the program and the plan alone.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Checks a program, independently of lower(): every action comes once and after the actions that
/// it reads, every TAKE has its SEND in lane order, gradients are final before they are reduced and
/// used, collectives come in one order on all members, and no ranks wait in a cycle with lanes
/// bounded by their windows. Errors: BadArtifact naming rank, op and, for a deadlock, the cycle.
llvm::Error check(const Program &program, const Plan &plan, const RunShape &shape);

} // namespace pipec
