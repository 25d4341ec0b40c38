// Which stages run their forward again in the backward. With few stages every choice is tried; with
// many, the next stage is the one that frees the most bytes for its time.
#pragma once

#include "compiler/planner/CandidateTrial.h"
#include "compiler/planner/RecomputeWish.h"

namespace pipec {

/// Errors: Usage for a listed stage that does not exist.
llvm::Error checkListed(const RecomputeWish &recompute, size_t stages);

/// True if there are few choices and schedules are made fast.
bool triesEveryChoice(const Generator &generator, const StagedWork &work);

/// Tries every set of recomputed stages of which no proper subset fits. `candidate` becomes the
/// best one, or if none fits the one that needs least.
llvm::Error tryChoices(CandidateTrial &trial, const Generator &generator,
                       ScheduleCandidate &candidate);

/// Every rank over its limit recomputes one more stage: the one that frees the most bytes for its
/// time. Returns false if some rank has none left.
bool recomputeMore(ScheduleCandidate &candidate);

/// The candidate with every allowed set of recomputed stages, if every choice is tried.
std::vector<ScheduleCandidate> choicesOf(const ScheduleCandidate &candidate);

} // namespace pipec
