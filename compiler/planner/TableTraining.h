// Plans of trainings under a table of actions: the order is given, the cuts are free.
#pragma once

#include "compiler/planner/PlanTraining.h"
#include "compiler/planner/StagedWork.h"

namespace pipec {

/// Replaces the table of `wishes`, for the search for cuts, by a schedule of a name that has the
/// stages on the same ranks, or, where none has, by one with a rank for every stage. Errors:
/// BadArtifact for a table that is no schedule; Usage for given cuts of another number of stages,
/// and for a cluster with places of stages that no named schedule has.
llvm::Error cutForTable(TrainingWishes &wishes);

/// Puts the table in the place of the schedule that `work` was searched with, its ranks and
/// recomputes too, and counts memory and time of it. `costs`: those of `work`. Errors: NoPlan if a
/// rank needs more than the memory limit.
llvm::Error takeTable(const TrainingWishes &wishes, const StagedWork &work, ProgramCosts &costs,
                      PlannedTraining &plan);

} // namespace pipec
