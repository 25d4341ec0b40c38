// Moves actions of an order forward into gaps where their rank stands idle.
#pragma once

#include "ir/schedule/Generators.h"

namespace pipec {

/// Left-justification (a heuristic of resource-constrained project scheduling): an action that has
/// all it reads by the end of a gap on its rank, and fits into what is left of it, runs there,
/// where the activations held until its old place stay within the request's limit. Nothing is
/// delayed, so the step never gets longer.
void fillGaps(Schedule &schedule, Placement placement, const ScheduleRequest &request);

} // namespace pipec
