#include "ir/schedule/generators/Search.h"

#include "ir/support/Error.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

constexpr int64_t kGaps[] = {0, 25, 50, 75, 95, 100};
constexpr int64_t kExtras[] = {-1, 0, 1, 2};
constexpr int64_t kAheads[] = {0, 50, 75, 100};
constexpr size_t kRefined = 32; // policies, from the best

} // namespace

llvm::Error Search::consider(Schedule schedule) { return take(std::move(schedule)).takeError(); }

llvm::Expected<std::optional<Search::Value>> Search::take(Schedule schedule) {
  Scored candidate = TRY(score(std::move(schedule), request_));
  leastPeak_ = std::min(leastPeak_, candidate.peak());
  if (candidate.peak() > request_.memoryLimit)
    return std::nullopt;
  const Value value = candidate.value();
  if (!found_ || value < found_->value())
    found_ = std::move(candidate);
  return value;
}

llvm::Expected<std::optional<Search::Value>> Search::tryPolicy(const Policy &policy) {
  std::optional<Schedule> played = play(request_, placement_, policy);
  return played ? take(std::move(*played)) : std::nullopt;
}

llvm::Error Search::tryNew(Policy policy) {
  std::optional<Value> value = TRY(tryPolicy(policy));
  if (value)
    attempts_.push_back({*value, std::move(policy)});
  return llvm::Error::success();
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
          if (isTimeUp())
            return llvm::Error::success();
          TRY(tryNew(std::move(policy)));
          if (ahead == 0)
            break; // limited by memory only: no extra to choose
        }
  return llvm::Error::success();
}

llvm::Error Search::tryOrder(const Schedule &schedule) {
  for (int64_t gap : kGaps) {
    Policy policy;
    policy.gapPercent.assign(request_.ranks, gap);
    policy.extra.assign(request_.ranks, 0);
    policy.order = &schedule;
    if (isTimeUp())
      break;
    TRY(tryNew(std::move(policy)));
  }
  return llvm::Error::success();
}

llvm::Error Search::refine() {
  const size_t actions = 3 * request_.stages() * static_cast<size_t>(request_.microBatches);
  size_t plays = request_.refineActions / actions;
  llvm::stable_sort(attempts_, llvm::less_first());
  for (auto &[value, policy] : llvm::MutableArrayRef(attempts_).take_front(kRefined))
    for (size_t r = request_.ranks; r-- > 0;) // from the last: gradients come from there
      for (int64_t gap : kGaps)
        for (int64_t extra : kExtras) {
          if (plays-- == 0 || isTimeUp())
            return llvm::Error::success();
          Policy changed = policy;
          changed.gapPercent[r] = gap;
          changed.extra[r] = extra;
          std::optional<Value> reached = TRY(tryPolicy(changed));
          if (reached && *reached < value) {
            value = *reached;
            policy = std::move(changed);
          }
        }
  return llvm::Error::success();
}

llvm::Expected<Schedule> Search::best() {
  TRY(tryFreeOrders());
  TRY(refine());
  if (!found_) {
    if (request_.leastMemory)
      *request_.leastMemory = leastPeak_;
    auto text = [&](int64_t memory) {
      return request_.memoryText ? request_.memoryText(memory) : exactBytes(memory);
    };
    return failf(ExitCode::NoPlan,
                 "no order stays within {} of activations per rank; the least found needs {}",
                 text(request_.memoryLimit), text(leastPeak_));
  }
  return std::move(found_->schedule);
}

} // namespace pipec
