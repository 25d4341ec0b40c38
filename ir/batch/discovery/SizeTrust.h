// Operators that may loop forever or crash at sizes that the author did not expect.
#pragma once

namespace torch::jit {
struct Node;
}

namespace pipec {

/// True for a loop that ends depending on data, a division by a size, and operators of libraries,
/// some of which read sizes without checking them.
bool mayRunForEverAtOtherSizes(const torch::jit::Node *node);

} // namespace pipec
