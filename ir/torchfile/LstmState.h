// A check that an LSTM's state is for as many samples as its input: LibTorch's LSTM, alone of its
// recurrent layers, reads and writes beyond a state of too few, as a trace may have it for a
// constant.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::jit {
struct Block;
} // namespace torch::jit

namespace pipec {

/// Inserts the check before each LSTM of a graph that LibTorch's interpreter will run.
void insertLstmStateChecks(torch::jit::Block *block);

/// The check itself, for who calls the operator's kernel with these arguments: the first, the
/// second and the last. Throws what a graph with the check throws.
void checkLstmState(const at::Tensor &input, at::TensorList state, bool batchFirst);

} // namespace pipec
