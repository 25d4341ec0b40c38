// The state that LibTorch's optimizers keep of one parameter, as a checkpoint holds it.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"

#include <memory>

namespace torch::optim {
class OptimizerParamState;
}

namespace pipec {

/// The state under PyTorch's keys. The tensors are the optimizer's own. name: "sgd" or
/// "adagrad".
OptimizerState stateOf(const std::string &name, const torch::optim::OptimizerParamState &state);

/// The reverse of stateOf; the tensors are taken over. Throws LibTorch's exceptions for a key that
/// is missing or has another type.
std::unique_ptr<torch::optim::OptimizerParamState> paramStateOf(const std::string &name,
                                                                const OptimizerState &state);

/// A dict of it, with its tensors on the CPU.
c10::IValue dictOf(const OptimizerState &state);

/// The value of a key. Throws LibTorch's exception if there is none.
const c10::IValue &valueOf(const OptimizerState &state, llvm::StringRef key);
/// The tensor of a key, undefined for an empty state. Throws as valueOf.
at::Tensor tensorOf(const OptimizerState &state, llvm::StringRef key);

} // namespace pipec
