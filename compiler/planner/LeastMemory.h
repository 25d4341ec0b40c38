// When no schedule fits: the least memory with which one would.
#pragma once

#include "compiler/planner/CandidateTrial.h"

namespace pipec {

/// Bytes of the largest rank, and what needs no more.
using LeastMemory = std::pair<int64_t, ScheduleCandidate>;

/// Of candidates that were tried and do not fit; `choose`: with whatever may be recomputed, too.
/// Generators that choose by memory are asked for less as long as they find something. None: no
/// candidate failed for its memory.
llvm::Expected<std::optional<LeastMemory>>
findLeastMemory(CandidateTrial &trial, std::vector<ScheduleCandidate> candidates, bool choose);

} // namespace pipec
