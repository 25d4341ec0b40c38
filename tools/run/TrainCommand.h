// pipe-run --train: the loop over steps, and what it prints and writes.
#pragma once

#include "tools/run/Runner.h"

namespace pipec {

/// Trains, prints each step and the report, writes what was asked for. The training reads its
/// inputs itself. Without a step the report has no durations: a checkpoint was of the last one.
/// `expected`: the value of --expect, to be compared with the parameters and buffers.
/// Errors: those of the files, of the values in them and of a step.
llvm::Error trainAll(const RunCommand &command, const Runner &runner,
                     const std::optional<c10::IValue> &expected, RunReport &report);

} // namespace pipec
