// Whether PyTorch's own PipelineStage can run the stages of a plan.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// It hands everything to the next stage and nothing else: the first stage alone reads arguments,
/// the last alone makes results, every channel carries a tensor to the next stage, no weight is
/// sent. Gives the first place where that is not so and what is there, as "channel 2 (c2): skips a
/// stage"; empty: a chain. Needs valid indices of leaves and channels.
std::string chainBreak(const Plan &plan);

} // namespace pipec
