// How long LibTorch takes to read and write TorchScript files: the part of a compile that is not
// ours to shorten.
#pragma once

#include <chrono>
#include <cstdint>

namespace pipec {

/// Wall time in ns that this thread has spent in LibTorch's reading and writing of archives.
int64_t torchFileNs();

/// Counts the time of its own life into torchFileNs().
class TorchFileTimer {
public:
  TorchFileTimer() = default;
  TorchFileTimer(const TorchFileTimer &) = delete;
  TorchFileTimer &operator=(const TorchFileTimer &) = delete;
  ~TorchFileTimer();

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pipec
