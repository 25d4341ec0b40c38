// pipe-schedule auto: the best of all schedules for given costs and memory.
#pragma once

#include "llvm/Support/JSON.h"
#include "tools/schedule/ScheduleBound.h"

namespace pipec {

struct AutoTrial {
  Trial trial; // of the best, named after its generator
  SearchOutcome outcome;
  StepBound bound;
};

/// Stages per rank: as --stages and --ranks say, else one to four. Errors: Usage for numbers that
/// do not fit together; NoPlan with the least memory that would do.
llvm::Expected<AutoTrial> searchSchedules(const TrialRequest &request);

/// A row per schedule that was looked at, the best first.
void printCandidates(llvm::raw_ostream &out, const AutoTrial &found, bool inBytes);
/// What trialJson() has, and `schedule`, `gap`, `candidates`.
llvm::json::Object autoJson(const AutoTrial &found, bool inBytes);

} // namespace pipec
