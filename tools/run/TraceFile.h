// The trace of a step as a file: what ran, with what the simulator predicts beside it.
#pragma once

#include "ir/schedule/Simulate.h"
#include "runtime/RunTrace.h"

namespace pipec {

/// For chrome://tracing and Perfetto, and for pipe-inspect --trace. Two rows per rank, measured and
/// predicted, a span per op, an arrow from each SEND to its TAKE. `predicted` is of the same
/// program, of the last one of a step's `batches`.
std::string traceFile(const RunTrace &trace, const SimulatedRun &predicted,
                      llvm::StringRef schedule, int64_t batches);

} // namespace pipec
