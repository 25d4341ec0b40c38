// How far test runs are, and how long the rest takes.
#pragma once

#include "compiler/Progress.h"
#include "llvm/ADT/ArrayRef.h"

#include <chrono>
#include <mutex>
#include <string>

namespace pipec {

/// Runs that several threads do. Any thread.
class RunProgress {
public:
  /// `weights`: what each run takes grows with it.
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
