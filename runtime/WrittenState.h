// Which state a model has written.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace pipec {

/// The names of attributes, other than parameters, whose values differ between two copies of one
/// model, in the model's order; of an object of a TorchScript class, those of its attributes,
/// "box.count". Throws LibTorch's exceptions.
std::vector<std::string> changedState(const torch::jit::Module &before,
                                      const torch::jit::Module &after);

} // namespace pipec
