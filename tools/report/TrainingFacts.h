// The training that an artifact's plan describes, for people and for programs.
#pragma once

#include "ir/schedule/Program.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/report/PlanTiming.h"
#include "tools/report/Table.h"

namespace pipec {

/// "yes", "no", or of how many micro-batches: "3 of 4".
std::string recomputeText(const RunShape &shape, size_t stage);
/// The mode of weights that several stages read: "transmit", "replicate", "mixed"; empty: there are
/// none.
std::string tiedText(const Plan &plan);

/// Per stage: expected costs, recomputation, kind of backward. Empty for a plan without a training.
Table trainingStagesTable(const Plan &plan, const Schedule &rows);
/// Every trained parameter with its stages and its owner. Empty for a plan without a training.
Table trainedParametersTable(const Plan &plan);

/// Both tables, the loss, and the expected step. Prints nothing for a plan without a training.
/// `timing`: of all micro-batches.
void printTrainingFacts(llvm::raw_ostream &out, const Plan &plan, const Schedule &rows,
                        const PlanTiming &timing);
/// loss, count, recompute, recompute_except_last, stages[], parameters[], tied; if costs are known
/// also step_ms, bubble, lower_bound_ms, gap, activation_peaks[]. Expects a plan with a training.
llvm::json::Object trainingFactsJson(const Plan &plan, const Schedule &rows,
                                     const PlanTiming &timing);

} // namespace pipec
