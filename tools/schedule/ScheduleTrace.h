// A simulated schedule as a trace that chrome://tracing and Perfetto open.
#pragma once

#include "ir/schedule/Timing.h"

namespace pipec {

/// A process per rank, a span "stage/micro-batch/kind" per action, an arrow per value that goes
/// from one rank to another, and a counter of each rank's activations. `timing` and `costs` are of
/// this schedule.
std::string traceOf(const Schedule &schedule, const Timing &timing, const ScheduleCosts &costs,
                    llvm::StringRef name);

} // namespace pipec
