// pipe-run without --train: runs one batch once or several times.
#pragma once

#include "tools/run/Runner.h"

namespace pipec {

/// Runs the batch, prints the report and writes what was asked for. With `expected` the report gets
/// the comparison of the first result with it. Errors: those of the inputs, of a run and of the
/// files.
llvm::Error inferAll(const RunCommand &command, const Runner &runner,
                     const std::optional<c10::IValue> &expected, RunReport &report);

} // namespace pipec
