// Which state a model has written.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace pipec {

/// The names of attributes whose values differ between two copies of one model, in the model's
/// order; of an object of a TorchScript class, those of its attributes, "box.count". Parameters
/// count if `withParameters`. Throws LibTorch's exceptions.
std::vector<std::string> changedState(const torch::jit::Module &before,
                                      const torch::jit::Module &after, bool withParameters);

} // namespace pipec
