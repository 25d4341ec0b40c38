// The memory that this process has needed so far.
#pragma once

#include <cstdint>

namespace pipec {

/// The most that was resident at any time, mapped files included.
int64_t peakMemoryBytes();

} // namespace pipec
