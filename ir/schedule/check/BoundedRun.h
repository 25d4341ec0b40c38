// For the checker: all ranks run against each other with bounded lanes and no notion of time.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// For a program whose lanes and collectives agree end to end. A SEND waits while its lane is full,
/// a TAKE while it is empty, a collective for its last member. Errors: BadArtifact naming the ranks
/// that wait for each other in a cycle.
llvm::Error runBounded(const Program &program);

} // namespace pipec
