// The peak memory of this process.
#pragma once

#include <cstdint>

namespace pipec {

/// The largest resident size so far, mapped files included.
int64_t peakMemoryBytes();

} // namespace pipec
