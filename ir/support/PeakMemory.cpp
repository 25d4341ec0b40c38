#include "ir/support/PeakMemory.h"

#include <sys/resource.h>

namespace pipec {

int64_t peakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

} // namespace pipec
