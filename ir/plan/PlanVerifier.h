// Checks whether a plan is consistent.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Checks that every index is in range, every channel has one producer and matching consumers,
/// channels go forward between stages, every leaf is produced once, and ranks cover the stages.
/// Errors: BadArtifact naming stage and port.
llvm::Error verify(const Plan &plan);

} // namespace pipec
