// Channels that may carry a gradient back although they carry none in the example runs.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Sets requiresGrad of the activation channels whose values come out of branches or loops, or are
/// computed from such values, if a weight that is trained may lead to them: another run may take
/// a branch that the example did not take. A gradient that is then missing costs an empty message;
/// one that the plan does not know would be lost. plan.channels must have their dtypes.
void noteUncertainGradients(const StagedModel &model, Plan &plan);

} // namespace pipec
