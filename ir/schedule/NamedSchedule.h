// Schedules of a training by name, for the stages of a plan.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// A schedule with the place of each stage.
struct PlacedSchedule {
  Schedule schedule;
  std::vector<size_t> rankOfStage;
  size_t ranks = 1;
};

/// Makes the schedule of this name for `stages` stages that cost the same. ranks: 0: as few stages
/// per rank as the schedule accepts. Errors: Usage for an unknown name, naming a similar one, for
/// an inference schedule, and for numbers that the schedule does not accept.
llvm::Expected<PlacedSchedule> namedSchedule(llvm::StringRef name, size_t stages, size_t ranks,
                                             int64_t microBatches);

/// `preferred`, if the schedule accepts that many ranks for the stages; else as many as there are
/// for the fewest stages per rank that it accepts.
size_t ranksThatFit(llvm::StringRef name, size_t stages, size_t preferred);

/// Puts the stages of the plan where the schedule has them.
void place(const PlacedSchedule &placed, Plan &plan);

/// The actions of one training step with this plan. optimizer: weights are updated.
RunShape trainingShape(const Plan &plan, int64_t microBatches, bool optimizer);

} // namespace pipec
