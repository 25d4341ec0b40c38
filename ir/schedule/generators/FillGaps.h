// Moves actions of a schedule forward into idle gaps of their rank.
#pragma once

#include "ir/schedule/Generators.h"

namespace pipec {

/// Left-justification, a heuristic of resource-constrained project scheduling. An action moves into
/// a gap of its rank if its inputs have arrived, it fits into the rest of the gap, and the
/// activations held until its old place stay within the request's limit. No action is delayed, so
/// the step never gets longer.
void fillGaps(Schedule &schedule, Placement placement, const ScheduleRequest &request);

} // namespace pipec
