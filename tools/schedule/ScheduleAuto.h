// pipe-schedule auto: the best of all schedules for given costs and memory.
#pragma once

#include "llvm/Support/JSON.h"
#include "tools/schedule/ScheduleBound.h"

namespace pipec {

struct AutoTrial {
  Trial trial; // the best one, named after its generator
  SearchOutcome outcome;
  StepBound bound;
};

/// Stages per rank: by --stages and --ranks, else one to four. Errors: Usage for numbers that
/// contradict each other; NoPlan with the least memory that would suffice.
llvm::Expected<AutoTrial> searchSchedules(const TrialRequest &request);

/// Prints a row per examined schedule, the best first.
void printCandidates(llvm::raw_ostream &out, const AutoTrial &found, bool inBytes);
/// The keys of trialJson(), and `schedule`, `gap`, `candidates`.
llvm::json::Object autoJson(const AutoTrial &found, bool inBytes);

} // namespace pipec
