// How long LibTorch takes to read and write TorchScript files: the part of a compile that is not
// ours to shorten.
#pragma once

#include <cstdint>

namespace pipec {

/// ns. The second is less than the first where the thread waited or the machine did other things.
struct WallAndCpu {
  int64_t wall = 0, cpu = 0;
};

/// The time that this thread has spent in LibTorch's reading and writing of archives.
WallAndCpu torchFileNs();

/// Counts the time of its own life into torchFileNs().
class TorchFileTimer {
public:
  TorchFileTimer();
  TorchFileTimer(const TorchFileTimer &) = delete;
  TorchFileTimer &operator=(const TorchFileTimer &) = delete;
  ~TorchFileTimer();

private:
  WallAndCpu start_;
};

} // namespace pipec
