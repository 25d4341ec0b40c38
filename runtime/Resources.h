// What this machine gives the process: cores and memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipec {

/// Cores that this process may use (its affinity mask), at least 1.
int usableCores();

/// Intra-op threads of each of `ranks` ranks when the user does not say: max(1, cores / ranks).
int defaultThreads(size_t ranks);

/// Resident set of this process now.
int64_t currentMemoryBytes();

} // namespace pipec
