// How a compile cuts the arguments into micro-batches and merges the results, for people and for
// programs.
#pragma once

#include "compiler/CompileReport.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// Tables "inputs" (which dimension is cut, or whole) and "results" (merge rules, and whether the
/// merged result equals that of the whole batch).
void printBatch(llvm::raw_ostream &out, const CompileReport &report);

/// The values of "inputs" and "results" in the document of --json.
llvm::json::Array inputsJson(const CompileReport &report);
llvm::json::Array resultsJson(const CompileReport &report);

} // namespace pipec
