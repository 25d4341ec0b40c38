// The schedule of an inference: every stage runs every micro-batch once.
#pragma once

#include "ir/schedule/Schedule.h"

namespace pipec {

struct Plan;

/// The input of forwardOnly.
struct ScheduleShape {
  size_t stages = 1;
  int64_t microBatches = 1;
  std::vector<size_t> rankOfStage; // one per stage
  size_t ranks = 1;
};

/// The schedule of an inference: every stage runs every micro-batch forward once, in ascending
/// order. Of the inputs that have arrived, a rank takes the lowest micro-batch, and of that the
/// lowest stage. If the stages of a rank follow each other (stages 0 to 3 on ranks 0 0 1 1), each
/// micro-batch passes through all of them before the next one starts. If they do not (0 1 0 1), the
/// rank starts further micro-batches while it waits for the others.
Schedule forwardOnly(const ScheduleShape &shape);

/// The same for the stages of a plan, on its ranks.
Schedule forwardOnly(const Plan &plan, int64_t microBatches);

} // namespace pipec
