// Operators that return an argument itself: if they have nothing to change, as contiguous() does,
// or after a write into it.
#pragma once

#include <cstddef>
#include <optional>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Whether a result of the operator, or an element of a result, may be its first argument, or an
/// element of that, and no tensor that the operator makes.
bool mayReturnArgument(const torch::jit::Node *node);

/// The argument that is this result, after a write into it.
std::optional<size_t> writtenAs(const torch::jit::Node *node, size_t result);

/// Inserts, at the graph's insert point:
///
///   %same : bool = aten::__is__(%made, %given)
///   %chosen : Tensor = prim::If(%same)
///     block0():
///       -> (%instead)
///     block1():
///       -> (%otherwise)
///
/// with the metadata of `origin`, and returns the last value.
torch::jit::Value *insertChoice(torch::jit::Node *origin, torch::jit::Value *made,
                                torch::jit::Value *given, torch::jit::Value *instead,
                                torch::jit::Value *otherwise);

} // namespace pipec
