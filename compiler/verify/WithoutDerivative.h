// Finds the operators of the stages that LibTorch's error about a missing derivative names.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/StringRef.h"

namespace pipec {

/// The operators of the stages that LibTorch's message says have no derivative, as describeNode()
/// names them, each once. Empty: the message says something else.
std::vector<std::string> withoutDerivative(llvm::StringRef message, const StagedModel &stages);

} // namespace pipec
