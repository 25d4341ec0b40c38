// Plays a pipeline forward in time: how the automatic schedules make an order.
#pragma once

#include "ir/schedule/Generators.h"

#include <optional>

namespace pipec {

/// What a free rank does. An input gradient or a forward that is there runs first, then a weight
/// gradient when the gap until the next arrival is long enough, else the rank waits.
struct Policy {
  bool forwardFirst = false;       // of a forward and an input gradient that are both there
  std::vector<int64_t> gapPercent; // per rank: a weight gradient runs when this part of it fits
                                   // before the next arrival
  /// Most forwards ahead of backwards: as many as fill this part of the time until the first one's
  /// gradient comes back, and `extra`. 0: as many as memory holds.
  int64_t aheadPercent = 0;
  std::vector<int64_t> extra; // per rank
  /// Forwards and input gradients run in this order (its weight gradients are not read); null: as
  /// they come.
  const Schedule *order = nullptr;
};

/// The order that comes out for the request's costs within its memory limit. Nothing when the ranks
/// block each other under this policy.
std::optional<Schedule> play(const ScheduleRequest &request, Placement placement,
                             const Policy &policy);

/// A schedule with its timing; the smaller sum of longest span and makespan is the better, then the
/// smaller makespan.
struct Scored {
  Schedule schedule;
  Timing timing;

  int64_t peak() const;
  using Value = std::pair<int64_t, int64_t>; // smaller is better
  Value value() const { return {timing.longestSpan + timing.makespan, timing.makespan}; }
};
llvm::Expected<Scored> score(Schedule schedule, const ScheduleRequest &request);

} // namespace pipec
