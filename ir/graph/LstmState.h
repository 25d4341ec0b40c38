// A check that the state of an LSTM has as many samples as its input. LibTorch checks this for its
// other recurrent layers. Its LSTM reads and writes past the end of a smaller state, such as one
// that a trace recorded as a constant.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::jit {
struct Block;
} // namespace torch::jit

namespace pipec {

/// Inserts the check before each LSTM of a graph for LibTorch's interpreter.
void insertLstmStateChecks(torch::jit::Block *block);

/// The check itself, for callers of the operator's kernel, with its first, second and last
/// argument. Throws, because LibTorch's interpreter calls it and knows no other way to fail.
void checkLstmState(const at::Tensor &input, at::TensorList state, bool batchFirst);

} // namespace pipec
