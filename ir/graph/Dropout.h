// Dropout switched off in a loaded file, while all else stays in training mode. Losses of a whole
// batch and of its micro-batches can then be compared.
#pragma once

namespace torch::jit {
struct Block;
struct Module;
struct Node;
} // namespace torch::jit

namespace pipec {

/// Whether the operator may draw random numbers for another purpose than to drop elements. Dropout
/// of any kind, attention and recurrent networks with dropout do not.
bool drawsOtherThanDropout(torch::jit::Node *node);

/// Makes all operators with dropout drop nothing and draw nothing. Their results are new tensors,
/// as before.
void turnOffDropout(torch::jit::Block *block);
void turnOffDropout(const torch::jit::Module &module);

} // namespace pipec
