// How long a step of inference takes where ranks that are at work at once slow one another down.
#pragma once

#include "ir/schedule/Schedule.h"

namespace pipec {

/// A stage on one micro-batch, in nanoseconds: while no other rank is at work, and while all are.
struct SharedStage {
  int64_t alone = 0, shared = 0;
};

struct SharedStep {
  int64_t makespan = 0;
  int64_t busiest = 0; // time that the rank with the most work is at it
};

/// Ranks run the forwards of `schedule` in order, each when its input has come: `latency` after
/// the stage before has ended where that is on another rank. While k ranks are at work, a stage
/// goes as fast as its two times say for 1 and for `atOnce` ranks, and by a straight line between.
/// Expects a complete forward-only schedule.
SharedStep timeShared(const Schedule &schedule, const std::vector<SharedStage> &stages,
                      int64_t latency, int64_t atOnce);

} // namespace pipec
