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

/// Replaces the schedule of the search by the table, with the table's ranks and recomputes.
/// `work`: what was searched with. Errors: as checkTable.
llvm::Error takeTable(const Schedule &table, const StagedWork &work, PlannedTraining &plan);

/// Counts memory and time of the table's program in `plan`, which `run` simulated. Errors: NoPlan
/// if a rank needs more than the memory limit; 0: there is none.
llvm::Error countTable(int64_t memoryLimit, const SimulatedRun &run, PlannedTraining &plan);

} // namespace pipec
