// The output of pipe-schedule.
#pragma once

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/schedule/ScheduleTrial.h"

namespace pipec {

/// "1f1b: 4 ranks, 4 stages, 8 micro-batches".
std::string titleOf(const Trial &trial);
/// "step 33.0 ms, bubble 27.3 %": one line for a picture.
std::string subtitleOf(const Trial &trial);
/// Per rank: "peak 4 micro-batches".
std::vector<std::string> rankNotes(const Trial &trial, bool inBytes);

/// Prints chart, times and peaks of a valid trial; of an invalid one the chart if there is one.
void printTrial(llvm::raw_ostream &out, const Trial &trial, bool inBytes);
/// Prints one row per trial, each compared with the lower bound for its number of ranks and
/// micro-batches.
void printComparison(llvm::raw_ostream &out, const std::vector<Trial> &trials,
                     const TrialRequest &request);
/// Every generator.
void printGenerators(llvm::raw_ostream &out);

/// makespan_ms, longest_span_ms, bubble_makespan, bubble_longest_span, peak_memory, lower_bound_ms,
/// actions, valid, why. Unknown values are null.
llvm::json::Object trialJson(const Trial &trial, bool inBytes);
llvm::json::Array generatorsJson();
/// Bytes or micro-batches.
llvm::json::Value memoryJson(int64_t memory, bool inBytes);

} // namespace pipec
