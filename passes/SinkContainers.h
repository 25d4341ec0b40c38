// The part of functionalise-containers for containers that cannot travel between stages: it makes
// them where they are first used.
//
//   %d = DictConstruct()              %h = linear(%x, ...)
//   If(%c): _set_item(%d, "x", %x)    %y = linear(%h, ...)
//   %h = linear(%x, ...)         =>   %d = DictConstruct()
//   %y = linear(%h, ...)              If(%c): _set_item(%d, "x", %x)
//   return (%y, %d)                   return (%y, %d)
//
// Only operators that build containers and raise nothing move. No tensor is computed elsewhere than
// before, so gradients are summed in the same order.
#pragma once

namespace torch::jit {
struct Block;
struct Node;
} // namespace torch::jit

namespace pipec {

class AliasAnalysis;

/// `alias` must describe the graph in its current form. Returns true if something moved.
bool sinkContainers(torch::jit::Block *top, const AliasAnalysis &alias);

/// Whether only other containers are made between the two.
bool standsRightBefore(const torch::jit::Node *maker, torch::jit::Node *user);

} // namespace pipec
