// If no pipeline fits in memory: finds the least limit for which the joint search finds one.
// Devices that have more memory keep it.
#pragma once

#include "compiler/planner/JointSearch.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipec {

/// The memory of every device that a pipeline needs.
struct MemoryNeed {
  int64_t bytes = 0;
  std::string what; // "1f1b, 4 stages, 8 micro-batches"
};

MemoryNeed needOf(const TrainingProblem &problem, const TrainingPoint &point,
                  const ScheduleCandidate &candidate, int64_t bytesOfRank);

/// True if all ranks have the same memory: the pipeline with the smallest largest rank then needs
/// the least limit.
bool areRanksAlike(const TrainingProblem &problem);

/// NoPlan with `need` and the memory of the smallest device.
llvm::Error nothingFits(const JointRequest &request, const MemoryNeed &need);

/// The limit influences which cuts are examined, so cuts that were not examined may fit in a little
/// less than `known`, the least limit so far. This searches with less and less memory until nothing
/// fits in one byte less, or the time is up. Returns a pipeline that fits after all, or
/// nothingFits() with a limit for which `search` finds something. Errors: those of `search` other
/// than NoPlan.
llvm::Expected<JointOutcome>
searchBelow(const JointRequest &request, MemoryNeed known,
            llvm::function_ref<llvm::Expected<JointOutcome>(const JointRequest &)> search);

} // namespace pipec
