// A compute schedule drawn as text: one row per rank, one column per step.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// The start step of each action if every action takes one step and nothing else takes time;
/// [rank][i] belongs to schedule.ranks[rank][i]. Errors: BadArtifact if some action can never
/// start.
llvm::Expected<std::vector<std::vector<size_t>>> startSteps(const Schedule &schedule,
                                                            const Plan &plan);

///   rank 0  0F0  0F1  0F2
///   rank 1    .  1F0  1F1  1F2
/// in blocks that fit in `width` columns. Errors: those of startSteps.
llvm::Expected<std::string> drawTimeline(const Schedule &schedule, const Plan &plan,
                                         size_t width = 100);

} // namespace pipec
