// What pipe-compile prints: the tables for people, the document for programs.
#pragma once

#include "compiler/Compiler.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Stages, channels, ties, what was proved and tested, and where the time of the compile went.
void printReport(llvm::raw_ostream &out, const CompileReport &report);

/// The document of --json, without the effective options.
llvm::json::Object reportJson(const CompileReport &report);

} // namespace pipec
