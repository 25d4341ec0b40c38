#include "ir/torchfile/TorchFileTime.h"

#include <ctime>

namespace pipec {

namespace {

thread_local WallAndCpu spent;

int64_t read(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

WallAndCpu now() { return {read(CLOCK_MONOTONIC), read(CLOCK_THREAD_CPUTIME_ID)}; }

} // namespace

WallAndCpu torchFileNs() { return spent; }

TorchFileTimer::TorchFileTimer() : start_(now()) {}

TorchFileTimer::~TorchFileTimer() {
  const WallAndCpu end = now();
  spent.wall += end.wall - start_.wall;
  spent.cpu += end.cpu - start_.cpu;
}

} // namespace pipec
