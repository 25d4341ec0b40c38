// If no schedule fits: the least memory for which one would.
#pragma once

#include "compiler/planner/CandidateTrial.h"

namespace pipec {

/// Bytes of the largest rank, and the candidate that needs no more.
using LeastMemory = std::pair<int64_t, ScheduleCandidate>;

/// The minimum over candidates that were tried and do not fit. With `choose` it also considers any
/// allowed recompute. Generators that choose by memory are called with smaller limits as long as
/// they find a schedule. Nothing if no candidate failed because of memory.
llvm::Expected<std::optional<LeastMemory>>
findLeastMemory(CandidateTrial &trial, std::vector<ScheduleCandidate> candidates, bool choose);

} // namespace pipec
