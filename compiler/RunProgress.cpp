#include "compiler/RunProgress.h"

#include <numeric>

namespace pipec {

RunProgress::RunProgress(const ProgressCallback &callback, std::string step,
                         llvm::ArrayRef<int64_t> weights)
    : callback_(callback), step_(std::move(step)), weights_(weights),
      weightLeft_(std::accumulate(weights.begin(), weights.end(), int64_t(0))) {
  if (callback_)
    tell();
}

void RunProgress::ended(size_t run) {
  if (!callback_)
    return;
  std::lock_guard lock(mutex_);
  ++done_;
  weightDone_ += weights_[run];
  weightLeft_ -= weights_[run];
  tell();
}

void RunProgress::tell() const {
  int64_t leftNs = -1;
  if (weightDone_ > 0 && weightLeft_ > 0) {
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
    leftNs =
        static_cast<int64_t>(static_cast<double>(spent.count()) * static_cast<double>(weightLeft_) /
                             static_cast<double>(weightDone_));
  }
  callback_({step_, "runs", done_, weights_.size(), leftNs});
}

} // namespace pipec
