// The memory that this process may use at most.
#pragma once

#include <cstdint>

namespace pipec {

/// That of the machine with its swap space, or less where the control group or `ulimit -v` of the
/// process says so.
int64_t machineMemoryBytes();

} // namespace pipec
