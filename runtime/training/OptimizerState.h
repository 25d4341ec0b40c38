// The state that an optimizer keeps of one parameter, as a checkpoint holds it: under PyTorch's
// keys.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"

namespace pipec {

/// A dict of a state, with its tensors on the CPU.
c10::IValue dictOf(const OptimizerState &state);

/// The number of steps, 0 for an empty state. Errors: BadArtifact if the state has none.
llvm::Expected<int64_t> stepsOf(const OptimizerState &state);
/// The tensor of a key, undefined for an empty state. Errors: BadArtifact if there is none.
llvm::Expected<at::Tensor> tensorOf(const OptimizerState &state, llvm::StringRef key);

} // namespace pipec
