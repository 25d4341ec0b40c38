// The default schedule of an artifact that is trained.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

struct PlannedTraining;

/// The stages whose forward runs again before their backward: as planned, else as asked for.
std::vector<size_t> recomputedStages(const CompileOptions &options, const PlannedTraining *planned,
                                     const Plan &plan);

/// Chooses ranks, micro-batches and schedule of the plan, and makes the schedule: the user's table;
/// else what was planned; else the schedule that the options name, else 1f1b. `planned`: null where
/// no costs are known. Errors: Usage if the numbers do not fit the schedule.
llvm::Expected<Schedule> trainingSchedule(const CompileOptions &options,
                                          const PlannedTraining *planned, Plan &plan);

} // namespace pipec
