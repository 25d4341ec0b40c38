// Compiler faults to order, in test builds only: each must be caught by validation before anything
// is published.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Names of all faults; empty in a build without PIPEC_PLANTED_FAULTS.
llvm::ArrayRef<llvm::StringRef> plantedFaults();

/// Breaks the staged model as the fault says. Errors: Usage for an unknown name, or when the model
/// has nothing to break that way.
llvm::Error plantFault(llvm::StringRef name, StagedModel &model);

} // namespace pipec
