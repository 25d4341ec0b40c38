// The files that a run writes, beside those that it reads.
#pragma once

#include "tools/run/RunCommand.h"

namespace pipec {

/// Checks that no output is another output or a file that the run reads: with --force an output
/// replaces what is there. Errors: Usage naming both options.
llvm::Error checkDistinctFiles(const RunCommand &command);

} // namespace pipec
