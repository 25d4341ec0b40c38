// The cores of this process.
#pragma once

#include <cstddef>

namespace pipec {

/// Cores that this process may use (its affinity mask), at least 1.
int usableCores();

/// Default of intra-op threads for each of `ranks` ranks: max(1, cores / ranks).
int defaultThreads(size_t ranks);

} // namespace pipec
