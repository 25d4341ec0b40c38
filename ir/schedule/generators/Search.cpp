#include "ir/schedule/generators/Search.h"

namespace pipec {

namespace {

constexpr int64_t kGaps[] = {0, 25, 50, 75, 100};
constexpr int64_t kExtras[] = {-1, 0, 1, 2};
constexpr int64_t kAheads[] = {0, 50, 75, 100};
constexpr size_t kMostActions = 20'000'000; // played while refining: bounds the time

} // namespace

llvm::Error Search::consider(Schedule schedule, const Policy *policy) {
  llvm::Expected<Scored> candidate = score(std::move(schedule), request_);
  if (!candidate)
    return candidate.takeError();
  leastPeak_ = std::min(leastPeak_, candidate->peak());
  if (candidate->peak() > request_.memoryLimit || (best_ && !(*candidate < *best_)))
    return llvm::Error::success();
  best_ = std::move(*candidate);
  policy_ = policy ? std::optional(*policy) : std::nullopt;
  return llvm::Error::success();
}

llvm::Error Search::tryPolicy(const Policy &policy) {
  std::optional<Schedule> played = play(request_, placement_, policy);
  return played ? consider(std::move(*played), &policy) : llvm::Error::success();
}

llvm::Error Search::tryFreeOrders() {
  for (bool forwardFirst : {false, true})
    for (int64_t gap : kGaps)
      for (int64_t ahead : kAheads)
        for (int64_t extra : kExtras) {
          Policy policy;
          policy.forwardFirst = forwardFirst;
          policy.gapPercent.assign(request_.ranks, gap);
          policy.aheadPercent = ahead;
          policy.extra.assign(request_.ranks, extra);
          if (llvm::Error error = tryPolicy(policy))
            return error;
          if (ahead == 0)
            break; // as many as memory holds: no extra to choose
        }
  return llvm::Error::success();
}

llvm::Error Search::tryOrder(const Schedule &schedule) {
  for (int64_t gap : kGaps) {
    Policy policy;
    policy.gapPercent.assign(request_.ranks, gap);
    policy.extra.assign(request_.ranks, 0);
    policy.order = &schedule;
    if (llvm::Error error = tryPolicy(policy))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Search::refine() {
  if (!policy_)
    return llvm::Error::success();
  const size_t actions = 3 * request_.stages() * static_cast<size_t>(request_.microBatches);
  size_t plays = kMostActions / actions;
  for (size_t r = request_.ranks; r-- > 0;) // from the last: gradients come from there
    for (int64_t gap : kGaps)
      for (int64_t extra : kExtras) {
        if (plays-- == 0 || !policy_)
          return llvm::Error::success();
        Policy changed = *policy_;
        changed.gapPercent[r] = gap;
        changed.extra[r] = extra;
        if (llvm::Error error = tryPolicy(changed))
          return error;
      }
  return llvm::Error::success();
}

llvm::Expected<Schedule> Search::take() {
  if (!best_) {
    if (request_.leastMemory)
      *request_.leastMemory = leastPeak_;
    auto text = [&](int64_t memory) {
      return request_.memoryText ? request_.memoryText(memory) : fmt::format("{} bytes", memory);
    };
    return failf(ExitCode::NoPlan,
                 "no order stays within {} of activations per rank; the least found needs {}",
                 text(request_.memoryLimit), text(leastPeak_));
  }
  return std::move(best_->schedule);
}

} // namespace pipec
