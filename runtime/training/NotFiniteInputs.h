// An error about numbers that are not finite, with the argument that may have brought them in.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

/// Adds a line to the help of an error of kind NotFinite: the first micro-batch and argument with a
/// NaN, or, if there is none, with an infinite number (which masks may have). Unchanged if there is
/// neither, and for other errors. `microBatches`: one value per input of the signature each.
llvm::Error withNotFiniteInputs(llvm::Error error, const Signature &signature,
                                llvm::ArrayRef<std::vector<c10::IValue>> microBatches);

} // namespace pipec
