// The value of a hybrid plan, computed apart from the search.
#pragma once

#include "compiler/planner/hybrid/Hybrid.h"

namespace pipec {

/// The score of a plan, with every rule checked. Shares no code with the search. Errors:
/// BadArtifact naming the rule that is broken; NoPlan for too little memory.
llvm::Expected<HybridScore> scoreHybrid(const HybridProblem &problem,
                                        const std::vector<HybridStage> &stages);

} // namespace pipec
