// pipe-schedule with a table of operators: cuts, schedule, micro-batches and recompute together.
#pragma once

#include "tools/report/TrainingReport.h"
#include "tools/schedule/ScheduleTrial.h"

namespace pipec {

/// The pipeline as a trial, for charts, pictures and traces; its peaks are of everything that a
/// rank holds.
Trial trialOf(const PlannedTraining &plan);

/// What trialJson() and trainingJson() have; stages and peak_memory are the training's.
llvm::json::Object plannedJson(const PlannedTraining &plan);

} // namespace pipec
