#include "tools/FreedMemory.h"

#include <limits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace pipec {

void keepFreedMemory() {
#if defined(__GLIBC__)
  // Either alone makes it worse: setting one ends the adaptation of the other.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

} // namespace pipec
