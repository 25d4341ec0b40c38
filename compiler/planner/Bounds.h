// What no partition can beat: bounds from the work there is and the devices there are.
#pragma once

#include "compiler/planner/Items.h"

#include <chrono>
#include <memory>
#include <vector>

namespace pipec {

/// When to stop, and how long it has been. `counted`: time is what the questions whether it has
/// passed are worth, which does not depend on the machine.
class Deadline {
public:
  explicit Deadline(double seconds, bool counted = false)
      : start_(Clock::now()), limit_(seconds),
        questions_(counted ? std::make_shared<uint64_t>(0) : nullptr) {}
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool passed() const {
    if (questions_)
      return double(++*questions_) * kSecondsPerQuestion > limit_;
    return elapsed() > limit_;
  }
  double limit() const { return limit_; }
  /// The same start, another end.
  Deadline until(double seconds) const {
    Deadline other = *this;
    other.limit_ = std::min(seconds, limit_);
    return other;
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSecondsPerQuestion = 0.0005; // the searches ask about as often
  Clock::time_point start_;
  double limit_;
  std::shared_ptr<uint64_t> questions_; // so far, of all that have the same start
};

/// Weights per kind for the argument: with any weights, the sum over items of min over kinds of
/// weight * time is at most the sum over devices of weight * load (the dual of dividing the work
/// arbitrarily finely). A weight of 0 stands for a kind that is not there.
using KindWeights = std::vector<double>;

/// Weights, the largest 1, that make the bound for the kinds in `mask` with these device counts as
/// large as a search over the ratios of times finds.
KindWeights bestWeights(const Items &items, const std::vector<DeviceKind> &kinds, uint32_t mask);

/// min over the weighted kinds of weight * time; infinite when none of them may run the item.
double weightedTime(const Items &items, uint32_t item, const KindWeights &weights);

/// A lower bound on the largest load of any assignment, contiguous or not: balance and largest
/// item.
double balanceBound(const Items &items, const std::vector<DeviceKind> &kinds);

} // namespace pipec
