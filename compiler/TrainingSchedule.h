// The default schedule of an artifact that is trained.
#pragma once

#include "compiler/Compiler.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

struct PlannedTraining;

/// Chooses ranks, micro-batches, schedule and recomputed stages of the plan, and makes the
/// schedule: the user's table; else what was planned; else the schedule that the options name, else
/// 1f1b. `planned`: null where no costs are known. Errors: Usage if the numbers do not fit the
/// schedule.
llvm::Expected<Schedule> trainingSchedule(const CompileOptions &options,
                                          const PlannedTraining *planned, Plan &plan);

} // namespace pipec
