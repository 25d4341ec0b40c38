// Channels that may carry a gradient back although they carry none in the example runs.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Sets requiresGrad of the activation channels whose values, if a weight that is trained may lead
/// to them, depend on the way that a run takes: another run may give them a gradient that the
/// example's did not have. Such values come out of branches or loops, are in memory that is written
/// there, are chosen from a list or dict by an index or key of the run, have gradients turned on by
/// a flag of the run, or are computed from such values. A gradient that is then missing costs an
/// empty message; one that the plan does not know ends the run. plan.channels must have their
/// dtypes. One that has no gradients (an integer in the example) stays without.
void noteUncertainGradients(const StagedModel &model, Plan &plan);

} // namespace pipec
