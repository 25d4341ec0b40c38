// A pipeline for a training as people and programs read it: what pipe-schedule and pipe-compile
// share.
#pragma once

#include "compiler/planner/PlanTraining.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// Every stage, every rank's memory, and what was chosen.
void printTraining(llvm::raw_ostream &out, const PlannedTraining &plan);
/// schedule, stages[], microbatches, samples, tied, step_ms, bubble, lower_bound_ms, gap,
/// peak_memory[], complete, every_cut, pipelines.
llvm::json::Object trainingJson(const PlannedTraining &plan);

} // namespace pipec
