// Whether PyTorch's own PipelineStage can run the stages of a plan.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// PipelineStage sends every result to the next stage and to no other. So only the first stage may
/// read arguments, only the last may return results, every channel must carry a tensor to the next
/// stage, and no weight may be sent. Returns the first violation with its place, as "channel 2
/// (c2): skips a stage"; empty: a chain. Needs valid indices of leaves and channels.
std::string chainBreak(const Plan &plan);

} // namespace pipec
