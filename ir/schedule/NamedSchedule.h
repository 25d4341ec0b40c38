// Schedules of a training by name, for the stages of a plan.
#pragma once

#include "ir/schedule/Program.h"

#include <map>
#include <set>

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

/// What a step of a training with this plan and schedule runs. A schedule with recomputes (R) of a
/// stage says itself for which of its micro-batches. optimizer: weights are updated.
RunShape trainingShape(const Plan &plan, const Schedule &schedule, int64_t microBatches,
                       bool optimizer);

/// Which micro-batches the schedule recomputes (R), of each stage of which it recomputes any.
std::map<size_t, std::set<int64_t>> recomputesOf(const Schedule &schedule);

/// Sets the recomputes that the schedule says itself.
void takeRecomputes(const Schedule &schedule, RunShape &shape);

} // namespace pipec
