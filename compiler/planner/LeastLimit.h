// Where no pipeline fits the memory: the least limit with which the joint search finds one. Devices
// that have more than it keep what they have.
#pragma once

#include "compiler/planner/JointSearch.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipec {

/// Memory that a pipeline needs of every device.
struct MemoryNeed {
  int64_t bytes = 0;
  std::string what; // "1f1b, 4 stages, 8 micro-batches"
};

MemoryNeed needOf(const TrainingProblem &problem, const TrainingPoint &point,
                  const ScheduleCandidate &candidate, int64_t bytesOfRank);

/// All ranks have as much memory: whose largest rank needs least needs the least limit.
bool areRanksAlike(const TrainingProblem &problem);

/// NoPlan: with `need`, and what the smallest device has.
llvm::Error nothingFits(const JointRequest &request, const MemoryNeed &need);

/// A limit decides which cuts are looked at, so with a little less than `known`, the least of those
/// that were, others may do. Searches with less and less until with one byte less nothing is found,
/// or time is up. Returns what fits after all, or nothingFits() with a limit with which `search`
/// finds something, and what it finds. Errors: others than NoPlan of `search`.
llvm::Expected<JointOutcome>
searchBelow(const JointRequest &request, MemoryNeed known,
            llvm::function_ref<llvm::Expected<JointOutcome>(const JointRequest &)> search);

} // namespace pipec
