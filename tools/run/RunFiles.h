// The files that a run writes, beside those that it reads.
#pragma once

#include "tools/run/RunCommand.h"

namespace pipec {

/// Each output is another file than the outputs before it and than all that the run reads: with
/// --force it replaces what is there. Errors: Usage naming both options.
llvm::Error checkDistinctFiles(const RunCommand &command);

} // namespace pipec
