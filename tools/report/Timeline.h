// A compute schedule drawn as text: one row per rank, one column per step.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

///   rank 0  0F0  0F1  0F2
///   rank 1    .  1F0  1F1  1F2
/// in blocks that fit in `width` columns. Every action takes one step and nothing else takes time.
/// Errors: BadArtifact if some action can never start.
llvm::Expected<std::string> drawTimeline(const Schedule &schedule, const Plan &plan,
                                         size_t width = 100);

} // namespace pipec
