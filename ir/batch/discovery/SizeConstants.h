// Numbers in a model that may be numbers of samples.
#pragma once

#include <cstdint>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// The whole numbers that operators of the module compare with something, divide by, or end a part
/// of a tensor at: a batch that is larger may give something else than its micro-batches.
/// Ascending.
std::vector<int64_t> sizeConstantsIn(const torch::jit::Module &module);

} // namespace pipec
