// A simulated run of a program as the timing of the schedule that it was lowered from.
#pragma once

#include "ir/schedule/Schedule.h"
#include "ir/schedule/Simulate.h"

namespace pipec {

/// The intervals of the actions of `schedule`, like Schedule::ranks; every other number is from
/// `run`.
/// `program` was lowered from `schedule` without replicas, and `run` kept its intervals.
Timing actionTiming(const Schedule &schedule, const Program &program, const SimulatedRun &run);

} // namespace pipec
