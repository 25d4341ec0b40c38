// Operators for which other sizes than the author's may end in a loop without end, or in a crash.
#pragma once

namespace torch::jit {
struct Node;
}

namespace pipec {

/// A loop that runs until data says otherwise, a division by a size, and operators of libraries,
/// some of which read sizes that they do not check.
bool mayRunForEverAtOtherSizes(const torch::jit::Node *node);

} // namespace pipec
