// What functionalise-containers does with containers that cannot travel between stages: it makes
// them where they are first used.
//
//   %d = DictConstruct()              %h = linear(%x, ...)
//   If(%c): _set_item(%d, "x", %x)    %y = linear(%h, ...)
//   %h = linear(%x, ...)         =>   %d = DictConstruct()
//   %y = linear(%h, ...)              If(%c): _set_item(%d, "x", %x)
//   return (%y, %d)                   return (%y, %d)
//
// Only what puts containers together moves, and raises nothing: no tensor is computed elsewhere
// than before, so gradients keep the order in which they are summed.
#pragma once

namespace torch::jit {
struct Block;
struct Node;
} // namespace torch::jit

namespace pipec {

class AliasAnalysis;

/// `alias` is of the graph as it is. True when something has moved.
bool sinkContainers(torch::jit::Block *top, const AliasAnalysis &alias);

/// Nothing but other containers is made between the two.
bool standsRightBefore(const torch::jit::Node *maker, torch::jit::Node *user);

} // namespace pipec
