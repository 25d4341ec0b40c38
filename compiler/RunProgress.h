// The progress of test runs, and the time that remains.
#pragma once

#include "compiler/Progress.h"
#include "llvm/ADT/ArrayRef.h"

#include <chrono>
#include <mutex>
#include <string>

namespace pipec {

/// Progress of runs on several threads. Any thread.
class RunProgress {
public:
  /// `weights`: a measure of each run's time.
  RunProgress(const ProgressCallback &callback, std::string step, llvm::ArrayRef<int64_t> weights);

  void ended(size_t run);

private:
  void tell() const;

  const ProgressCallback &callback_;
  std::string step_;
  llvm::ArrayRef<int64_t> weights_;
  std::mutex mutex_;
  size_t done_ = 0;
  int64_t weightDone_ = 0, weightLeft_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pipec
