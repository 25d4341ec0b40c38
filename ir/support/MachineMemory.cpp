#include "ir/support/MachineMemory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace pipec {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t ofMachine() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0)
    return kUnlimited;
  return static_cast<int64_t>((uint64_t(info.totalram) + info.totalswap) * info.mem_unit);
}

/// A file that holds a number of bytes; "no limit" is not a number, or a huge one.
int64_t limitIn(const std::string &path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : kUnlimited;
}

/// Of version 2, where any folder above the process's own may have a limit, and of version 1.
int64_t ofControlGroup() {
  int64_t limit = std::min(limitIn("/sys/fs/cgroup/memory.max"),
                           limitIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::/", 0) != 0)
      continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      limit = std::min(limit, limitIn("/sys/fs/cgroup" + path + "/memory.max"));
  }
  return limit;
}

int64_t ofProcess() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kUnlimited;
  return static_cast<int64_t>(std::min<uint64_t>(limit.rlim_cur, kUnlimited));
}

} // namespace

int64_t machineMemoryBytes() { return std::min({ofMachine(), ofControlGroup(), ofProcess()}); }

} // namespace pipec
