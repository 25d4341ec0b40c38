// A check that the state of an LSTM has as many samples as its input. LibTorch checks this for its
// other recurrent layers. Its LSTM reads and writes past the end of a smaller state, such as one
// that a trace recorded as a constant.
#pragma once

namespace torch::jit {
struct Block;
} // namespace torch::jit

namespace pipec {

/// Inserts the check before each LSTM of a graph for LibTorch's interpreter.
void insertLstmStateChecks(torch::jit::Block *block);

} // namespace pipec
