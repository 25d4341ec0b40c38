// A pipeline for a training, for people and for programs: the common part of pipe-schedule and
// pipe-compile.
#pragma once

#include "compiler/planner/PlanTraining.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// Prints every stage, every rank's memory, and the chosen settings.
void printTraining(llvm::raw_ostream &out, const PlannedTraining &plan);
/// schedule, stages[], microbatches, samples, tied, step_ms, bubble, lower_bound_ms, gap,
/// peak_memory[], complete, every_cut, pipelines.
llvm::json::Object trainingJson(const PlannedTraining &plan);

} // namespace pipec
