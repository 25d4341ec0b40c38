// The state that an optimizer keeps of one parameter, as a checkpoint holds it: under PyTorch's
// keys.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"

namespace pipec {

/// A dict of a state, with its tensors on the CPU.
c10::IValue dictOf(const OptimizerState &state);

/// The value of a key. Throws LibTorch's exception if there is none.
const c10::IValue &valueOf(const OptimizerState &state, llvm::StringRef key);
/// The tensor of a key, undefined for an empty state. Throws as valueOf.
at::Tensor tensorOf(const OptimizerState &state, llvm::StringRef key);

} // namespace pipec
