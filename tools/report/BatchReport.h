// How a compile cuts the arguments into micro-batches and merges the results, as people and
// programs read it.
#pragma once

#include "compiler/Compiler.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// Tables "inputs" (what is cut along which dimension, what is given whole) and "results" (how
/// micro-batches are merged, and whether that is what the whole batch gives).
void printBatch(llvm::raw_ostream &out, const CompileReport &report);

/// The values of "inputs" and "results" in the document of --json.
llvm::json::Array inputsJson(const CompileReport &report);
llvm::json::Array resultsJson(const CompileReport &report);

} // namespace pipec
