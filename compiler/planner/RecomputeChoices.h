// Which stages run their forward again in the backward: of few stages every choice is tried, of
// many the one that gives most bytes for its time comes next.
#pragma once

#include "compiler/planner/CandidateTrial.h"

namespace pipec {

/// There are few choices, and schedules are made fast.
bool triesEveryChoice(const Generator &generator, const StagedWork &work);

/// Every set of stages to recompute of which no part fits; `candidate` becomes the best, or where
/// none fits the one that needs least.
llvm::Error tryChoices(CandidateTrial &trial, const Generator &generator,
                       ScheduleCandidate &candidate);

/// Every rank over its limit recomputes one more stage: the one that gives most bytes for its
/// time. False: there is none left on some rank.
bool recomputeMore(ScheduleCandidate &candidate);

/// The candidate with whatever may be recomputed, where every choice is tried.
std::vector<ScheduleCandidate> choicesOf(const ScheduleCandidate &candidate);

} // namespace pipec
