// The schedule of an inference: every stage runs every micro-batch once, in order.
//
// A rank with several stages goes depth first: all its stages of micro-batch 0, then of
// micro-batch 1. Two ranks, stages 0 to 3 on 0 1 0 1:
//   rank 0: 0F0 2F0 0F1 2F1          rank 1: 1F0 3F0 1F1 3F1
#include "ir/schedule/Schedule.h"

namespace pipec {

Schedule forwardOnly(const ScheduleShape &shape) {
  Schedule schedule;
  schedule.ranks.resize(shape.ranks);
  for (int64_t m = 0; m < shape.microBatches; ++m)
    for (size_t s = 0; s < shape.stages; ++s)
      schedule.ranks[shape.rankOfStage[s]].push_back({ActionKind::Forward, s, m});
  return schedule;
}

} // namespace pipec
