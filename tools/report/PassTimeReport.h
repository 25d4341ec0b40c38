// The times of --timing: lines for people, rows for programs.
#pragma once

#include "llvm/Support/JSON.h"
#include "passes/PassTimes.h"

namespace pipec {

/// One line per pass: the time of its runs, and how many of them changed the model.
void printPassTimes(llvm::raw_ostream &out, const std::vector<PassTime> &times);

/// [{name, runs, changed, ms}, ...]
llvm::json::Array passTimesJson(const std::vector<PassTime> &times);

} // namespace pipec
