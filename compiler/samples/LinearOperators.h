// Linear operators: the mean of their results is their result on the mean of the inputs.
#pragma once

#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Whether the result is a linear function of the inputs for which `isOver` holds, up to a
/// constant. What is not known to be linear is not. A quotient by such an input is left to the
/// caller.
bool isLinear(torch::jit::Node *node, llvm::function_ref<bool(torch::jit::Value *)> isOver);

/// Whether the input at `index` is no more than a size or a place, as the end of a slice.
bool isPlaceInput(const torch::jit::Node *node, size_t index);

} // namespace pipec
