// A part of verify(Plan): attributes of stages, and ties. Only for ir/plan.
#pragma once

#include "ir/plan/Faults.h"
#include "ir/plan/Plan.h"

namespace pipec::planparts {

/// Checks the attributes of the stages and the stages' effects on them.
void verifyWeights(const Plan &plan, Faults &faults);

/// Checks which stages hold and which receive an attribute that several stages use. Needs valid
/// indices in stages and channels.
void verifyTies(const Plan &plan, Faults &faults);

} // namespace pipec::planparts
