// Turns tensors that are baked into the code into attributes of kind constant, one per distinct
// tensor.
#pragma once

#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Block;
struct Value;
} // namespace torch::jit

namespace pipec {

struct Model;
struct ModuleEntry;

/// `add` makes the attribute and returns the graph's input for it.
void lowerTensorConstants(const Model &model, torch::jit::Block &block,
                          llvm::function_ref<torch::jit::Value *(const ModuleEntry &)> add);

} // namespace pipec
