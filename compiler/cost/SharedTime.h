// The time of an inference step if ranks that run at once slow each other down.
#pragma once

#include "ir/schedule/Schedule.h"

namespace pipec {

/// The time of a stage for one micro-batch, in nanoseconds: while no other rank runs, and while all
/// run.
struct SharedStage {
  int64_t alone = 0, shared = 0;
};

struct SharedStep {
  int64_t makespan = 0;
  int64_t busiest = 0; // busy time of the rank with the most work
};

/// Ranks run the forwards of `schedule` in order. A forward starts when its input has arrived: when
/// the previous stage has ended, plus `latency` if that is on another rank. While k ranks run, a
/// stage's speed is interpolated linearly between its two times, for 1 and for `atOnce` ranks.
/// Expects a complete forward-only schedule.
SharedStep timeShared(const Schedule &schedule, const std::vector<SharedStage> &stages,
                      int64_t latency, int64_t atOnce);

} // namespace pipec
