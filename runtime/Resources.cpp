#include "runtime/Resources.h"

#include <algorithm>
#include <cstdio>
#include <sched.h>
#include <thread>
#include <unistd.h>

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

int64_t currentMemoryBytes() {
  long total = 0, resident = 0;
  if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &total, &resident) != 2)
      resident = 0;
    std::fclose(file);
  }
  return static_cast<int64_t>(resident) * sysconf(_SC_PAGESIZE);
}

} // namespace pipec
