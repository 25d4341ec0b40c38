// A part of verify(Plan): loss, parameters and stages of a training. Only for ir/plan.
#pragma once

#include "ir/plan/Faults.h"
#include "ir/plan/Plan.h"

namespace pipec::planparts {

/// Checks loss, parameters and stages of a training, and whether parameters, ties and the flags of
/// attributes say the same. Needs valid indices in stages and channels.
void verifyTraining(const Plan &plan, Faults &faults);

} // namespace pipec::planparts
