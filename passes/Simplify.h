// The simplifying passes as one step.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Alternates the simplifying passes until none changes the model; true when one did.
/// Errors: those of the passes; Internal when they do not come to rest.
llvm::Expected<bool> simplifyToFixpoint(Model &model);

/// A pipeline with the group in place of each `simplify`:
/// fixpoint(fixpoint(fold-constants,...),functionalise-containers).
std::string withSimplifyOpened(llvm::StringRef pipeline);

} // namespace pipec
