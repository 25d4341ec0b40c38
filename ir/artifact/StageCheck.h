// Holds the plan of a stage against the facts of its file.
#pragma once

#include "ir/artifact/StageFacts.h"

namespace pipec {

/// Compares all that the plan says of one stage with its file. Errors: BadArtifact naming the thing
/// and both values.
llvm::Error checkStage(const StagePlan &plan, const StageFacts &facts);

/// Compares the trained parameters that the stage holds with its file, which checkStage() accepts.
/// Errors: as there.
llvm::Error checkTrained(const Plan &plan, size_t stage, const StageFacts &facts);

} // namespace pipec
