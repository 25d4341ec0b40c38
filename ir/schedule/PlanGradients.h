// The gradients of a plan, for programs of a training.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Whether a gradient returns along the channel. If the plan does not know the channel's tensor:
/// whether the channel carries a tensor.
bool carriesGradient(const Plan &plan, const Channel &channel);
/// Whether I of the stage does nothing and W is its whole backward, if it is split: no value that
/// it receives has a gradient.
bool isAllInW(const Plan &plan, size_t stage);
/// Bytes of the gradients that come back for the stage's results: those of one result are added up.
int64_t receivedGradientBytes(const Plan &plan, size_t stage);
/// Whether the gradients of a tie's copies must be summed: true only for replicated ties.
bool sumsGradient(const Plan &plan, const Tie &tie);
/// Bytes of the gradients of the weights that the stage holds, which replicas sum.
int64_t gradientBytes(const Plan &plan, size_t stage);

} // namespace pipec
