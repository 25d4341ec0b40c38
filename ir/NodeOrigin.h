// Which operator of the source a node comes from: a name that passes hand on with a node's
// metadata, for decisions that an artifact keeps. It is no part of the text form.
//
//   aten::add #2        the second aten::add or aten::add_ of its module, in the inlined source
//   aten::add #2.0.3    the same in iteration 0 of the unrolled loop around it, and in
//                       iteration 3 of the loop inside that one
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace torch::jit {
struct Graph;
struct Node;
struct Scope;
} // namespace torch::jit

namespace pipec {

/// The scope of a node is that of its module, or an origin within it.
bool isOrigin(const torch::jit::Scope &scope);

/// Names every operator that is no constant, unless some have names already. Nodes must know their
/// modules.
void nameOrigins(torch::jit::Graph &graph);

/// How many unrolled loops the node was in.
size_t unrolledAround(const torch::jit::Node *node);
/// The node, and all in its blocks, is the copy for `iteration` of the loop inside of `outer`
/// unrolled ones. Which loop is unrolled first does not matter.
void addIteration(torch::jit::Node *node, size_t outer, int64_t iteration);

/// "aten::add_ #2 in encoder.layers.3". A node that a pass made of another operator:
/// "aten::slice_scatter at aten::add #2 in encoder.layers.3".
std::string nameWithOrigin(torch::jit::Node *node);

} // namespace pipec
