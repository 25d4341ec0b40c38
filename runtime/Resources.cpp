#include "runtime/Resources.h"

#include <algorithm>
#include <sched.h>
#include <thread>

namespace pipec {

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  return std::max(1u, std::thread::hardware_concurrency());
}

int defaultThreads(size_t ranks) {
  return std::max(1, usableCores() / static_cast<int>(std::max<size_t>(ranks, 1)));
}

} // namespace pipec
