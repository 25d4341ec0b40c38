// For the checker: runs all ranks together with bounded lanes and without times.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Expects a program whose lanes and collectives agree at both ends. A SEND waits while its lane is
/// full, a TAKE while it is empty, a collective for its last member. Errors: BadArtifact naming the
/// ranks that wait for each other in a cycle.
llvm::Error runBounded(const Program &program);

} // namespace pipec
