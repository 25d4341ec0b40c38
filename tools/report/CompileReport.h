// The output of pipe-compile: the tables for people, the document for programs.
#pragma once

#include "compiler/CompileReport.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Stages, channels, ties, proved and tested properties, and the times of the compile's phases.
void printReport(llvm::raw_ostream &out, const CompileReport &report);

/// The document of --json, without the effective options.
llvm::json::Object reportJson(const CompileReport &report);

} // namespace pipec
