// The limit for this process's memory.
#pragma once

#include <cstdint>

namespace pipec {

/// The machine's memory with its swap space, or less if the control group or `ulimit -v` of the
/// process limits it.
int64_t machineMemoryBytes();

} // namespace pipec
