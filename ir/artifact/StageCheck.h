// Holds the plan of a stage against the facts of its file.
#pragma once

#include "ir/artifact/StageFacts.h"

namespace pipec {

/// Compares all that the plan says of one stage with its file. Errors: BadArtifact naming the thing
/// and both values.
llvm::Error checkStage(const StagePlan &plan, const StageFacts &facts);

} // namespace pipec
