// pipe-schedule with a table of operators: chooses cuts, schedule, micro-batches and recompute
// together.
#pragma once

#include "tools/report/TrainingReport.h"
#include "tools/schedule/ScheduleTrial.h"

namespace pipec {

/// The pipeline as a trial, for charts, pictures and traces. Its peaks include all that a rank
/// holds.
Trial trialOf(const PlannedTraining &plan);

/// The keys of trialJson() and trainingJson(); stages and peak_memory are the training's.
llvm::json::Object plannedJson(const PlannedTraining &plan);

} // namespace pipec
