// Plays a pipeline forward in time: the automatic schedules build their order this way.
#pragma once

#include "ir/schedule/Generators.h"

#include <optional>

namespace pipec {

/// The choices of a free rank. It runs an input gradient or a forward if one is ready, otherwise a
/// weight gradient if the gap until the next arrival is long enough, otherwise it waits.
struct Policy {
  bool forwardFirst = false;       // if both an input gradient and a forward are ready
  std::vector<int64_t> gapPercent; // per rank: a weight gradient runs if this part of it fits
                                   // before the next arrival
  /// Limit of forwards ahead of backwards: as many as fill this part of the time until the first
  /// gradient returns, plus `extra`. 0: limited by memory only.
  int64_t aheadPercent = 0;
  std::vector<int64_t> extra; // per rank
  /// Forwards and input gradients run in this order (its weight gradients are ignored); null: in
  /// order of arrival.
  const Schedule *order = nullptr;
};

/// The resulting order for the request's costs within its memory limit. Nothing if the ranks block
/// each other under this policy.
std::optional<Schedule> play(const ScheduleRequest &request, Placement placement,
                             const Policy &policy);

/// A schedule with its timing. The smaller sum of longest span and makespan is better; if equal,
/// the smaller makespan.
struct Scored {
  Schedule schedule;
  Timing timing;

  int64_t peak() const;
  using Value = std::pair<int64_t, int64_t>; // smaller is better
  Value value() const { return {timing.longestSpan + timing.makespan, timing.makespan}; }
};
llvm::Expected<Scored> score(Schedule schedule, const ScheduleRequest &request);

} // namespace pipec
