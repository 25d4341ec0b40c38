// Which state a model has written.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// Attributes with their values, in the model's order.
using StateValues = std::vector<std::pair<std::string, c10::IValue>>;

/// The values as they are, no copies; of an object of a TorchScript class, those of its attributes,
/// "box.count". Parameters count if `withParameters`. Throws LibTorch's exceptions.
StateValues stateOf(const torch::jit::Module &module, bool withParameters);

/// The names of attributes whose values differ between two states of one model. Throws LibTorch's
/// exceptions.
std::vector<std::string> changedState(const StateValues &before, const StateValues &now);

} // namespace pipec
