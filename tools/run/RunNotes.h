// What pipe-run says about a finished run besides its results: the number of micro-batches, and
// the simulated times.
#pragma once

#include "tools/run/Runner.h"

namespace pipec {

/// Without --microbatches, the batch decides how many there are: a note if it is not the default.
void noteMicroBatches(const RunCommand &command, const Runner &runner, int64_t samples,
                      llvm::ArrayRef<c10::IValue> inputs);

/// Of an artifact: what the simulator makes of the measured times, for the report and --trace.
/// Errors: those of the simulation and of writing the file.
llvm::Error noteTimes(const RunCommand &command, const Runner &runner, RunReport &report);

} // namespace pipec
