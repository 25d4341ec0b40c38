// The gradients of a plan, for programs of a training.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Whether a gradient returns along the channel. If the plan does not know the channel's tensor:
/// whether the channel carries a tensor.
bool carriesGradient(const Plan &plan, const Channel &channel);
/// Whether the gradients of a tie's copies must be summed: true only for replicated ties.
bool sumsGradient(const Plan &plan, const Tie &tie);
/// Bytes of the gradients of the weights that the stage holds, which replicas sum.
int64_t gradientBytes(const Plan &plan, size_t stage);

} // namespace pipec
