// Which result of the model is the loss that a training starts its way back from.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// The output leaf of `path`; with an empty path the model's only result. Errors: Usage for a path
/// that names no result, for a result that is known not to be a floating-point tensor of one
/// number, and for an empty path with several results; each names the results.
llvm::Expected<size_t> lossLeaf(const Signature &signature, const std::string &path);

} // namespace pipec
