// The lower bound for all schedules: `pipe-schedule auto` and comparisons measure against it.
#pragma once

#include "compiler/planner/ScheduleSearch.h"
#include "tools/schedule/ScheduleTrial.h"

#include <map>
#include <tuple>

namespace pipec {

/// Ranks, and the numbers of stages per rank to try.
struct AutoShape {
  size_t ranks = 0;
  std::vector<size_t> chunks;
};
/// By --stages and --ranks, else one to four stages per rank. Errors: Usage for numbers that
/// contradict each other.
llvm::Expected<AutoShape> autoShape(const TrialRequest &asked);

/// Each number of stages per rank, in all of its placements.
std::vector<StagedWork> worksOf(const TrialRequest &asked, const AutoShape &shape);

/// No schedule with these ranks and micro-batches, and with any of these numbers of stages per
/// rank, has a shorter step.
struct StepBound {
  int64_t time = 0; // nanoseconds; 0: costs are all zero
  size_t fewestChunks = 1, mostChunks = 1;
};
/// Errors: those of autoShape.
llvm::Expected<StepBound> stepBound(const TrialRequest &asked);
/// "above bound: how much longer than 9.50 ms; no schedule ..."
std::string stepBoundText(const StepBound &bound);
/// "5.3 %"
std::string aboveBoundText(int64_t time, int64_t bound);

/// Trials that share a bound: the same number of ranks and micro-batches, with or without backward.
using TrialKind = std::tuple<size_t, int64_t, bool>;
TrialKind kindOf(const Trial &trial);
/// The bounds for all trials with a timing; no larger than the time that the stages of any of them
/// need.
std::map<TrialKind, StepBound> boundsOf(const std::vector<Trial> &trials,
                                        const TrialRequest &request);

} // namespace pipec
