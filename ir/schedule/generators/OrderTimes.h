// Times of a complete order of forwards, input and weight gradients, without the checks of
// timeSchedule. Fast enough for searches that try thousands of orders.
#pragma once

#include "ir/schedule/Generators.h"

namespace pipec {

class OrderTimes {
public:
  /// Keeps `request` by reference.
  OrderTimes(const ScheduleRequest &request, std::vector<size_t> rankOfStage);

  /// Computes the times of all actions by the rules of Timing. Returns false if ranks wait for each
  /// other.
  bool run(const Schedule &schedule);

  /// After run: like Schedule::ranks.
  std::vector<std::vector<Timing::Interval>> ranks;
  int64_t makespan = 0, longestSpan = 0;

  /// When the inputs of the action have arrived on its rank; negative if it never ran.
  int64_t readyAt(const Action &action) const;
  int64_t lengthOf(const Action &action) const;
  /// Bytes that the action allocates; negative if it frees them.
  int64_t memoryOf(const Action &action) const;

private:
  size_t cell(const Action &action) const {
    return action.stage * static_cast<size_t>(request_.microBatches) +
           static_cast<size_t>(action.microBatch);
  }
  int64_t arrival(int64_t end, size_t from, size_t to) const;

  const ScheduleRequest &request_;
  std::vector<size_t> rankOfStage_;
  std::vector<int64_t> forwardEnd_, gradEnd_; // per stage and micro-batch
  std::vector<size_t> next_;                  // per rank
};

} // namespace pipec
