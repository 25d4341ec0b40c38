// The schedule of an artifact, lowered and checked.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Reads the text of an artifact's schedule, lowers it for the plan's number of micro-batches, and
/// checks it. Errors: BadArtifact for any problem.
llvm::Expected<Program> checkSchedule(llvm::StringRef csv, const Plan &plan);

} // namespace pipec
