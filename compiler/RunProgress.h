// How far test runs are, and how long the rest takes.
#pragma once

#include "compiler/Progress.h"
#include "llvm/ADT/ArrayRef.h"

#include <chrono>
#include <mutex>
#include <numeric>

namespace pipec {

/// Runs that several threads do. Any thread.
class RunProgress {
public:
  /// `weights`: what each run takes grows with it.
  RunProgress(const ProgressCallback &callback, std::string step, llvm::ArrayRef<int64_t> weights)
      : callback_(callback), step_(std::move(step)), weights_(weights),
        weightLeft_(std::accumulate(weights.begin(), weights.end(), int64_t(0))) {
    if (callback_)
      tell();
  }

  void ended(size_t run) {
    if (!callback_)
      return;
    std::lock_guard lock(mutex_);
    ++done_;
    weightDone_ += weights_[run];
    weightLeft_ -= weights_[run];
    tell();
  }

private:
  void tell() const {
    int64_t leftNs = -1;
    if (weightDone_ > 0 && weightLeft_ > 0) {
      const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
      leftNs =
          static_cast<int64_t>(static_cast<double>(spent.count()) *
                               static_cast<double>(weightLeft_) / static_cast<double>(weightDone_));
    }
    callback_({step_, "runs", done_, weights_.size(), leftNs});
  }

  const ProgressCallback &callback_;
  std::string step_;
  llvm::ArrayRef<int64_t> weights_;
  std::mutex mutex_;
  size_t done_ = 0;
  int64_t weightDone_ = 0, weightLeft_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pipec
