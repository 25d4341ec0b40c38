// Lower bounds that no partition beats, from the total work and the available devices.
#pragma once

#include "compiler/planner/Items.h"
#include "compiler/planner/WorkClock.h"

#include <chrono>
#include <memory>
#include <vector>

namespace pipec {

/// The unit that a limit counts. Questions: each question whether the time is up counts as a fixed
/// time. Work: what WorkClock counts. The result of a search then does not depend on the machine.
enum class TimeCount { Time, Questions, Work };

/// A time limit with its start.
class Deadline {
public:
  explicit Deadline(double seconds, TimeCount count = TimeCount::Time)
      : count_(count), start_(now()), limit_(seconds),
        questions_(count == TimeCount::Questions ? std::make_shared<uint64_t>(0) : nullptr) {}
  double elapsed() const { return now() - start_; }
  bool passed() const {
    if (questions_)
      return double(++*questions_) * kSecondsPerQuestion > limit_;
    return elapsed() > limit_;
  }
  double limit() const { return limit_; }
  /// The same start with another end.
  Deadline until(double seconds) const {
    Deadline other = *this;
    other.limit_ = std::min(seconds, limit_);
    return other;
  }

private:
  double now() const {
    if (count_ == TimeCount::Work)
      return WorkClock::seconds();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  static constexpr double kSecondsPerQuestion = 0.0005; // about the rate at which searches ask
  TimeCount count_;
  double start_, limit_;
  std::shared_ptr<uint64_t> questions_; // asked so far, over all deadlines with the same start
};

/// Weights per kind for the bound: for any weights, the sum over items of min over kinds of weight
/// * time is at most the sum over devices of weight * load (the dual of dividing the work
/// arbitrarily finely). A weight of 0 excludes the kind.
using KindWeights = std::vector<double>;

/// Weights, the largest 1, that maximise the bound for the kinds in `mask` with these device
/// counts, found by a search over the ratios of times.
KindWeights bestWeights(const Items &items, const std::vector<DeviceKind> &kinds, uint32_t mask);

/// min over the weighted kinds of weight * time; infinite when there are none.
double weightedTime(const Items &items, uint32_t item, const KindWeights &weights);

/// A lower bound on the largest load of any assignment, contiguous or not: balance and largest
/// item.
double balanceBound(const Items &items, const std::vector<DeviceKind> &kinds);

} // namespace pipec
