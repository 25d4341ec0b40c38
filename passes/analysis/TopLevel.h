// The top level of a flat graph as a list: the operators between which stages can be cut.
#pragma once

#include "ir/Model.h"
#include "ir/NodeCost.h"
#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Operators of the top level in program order, without constants, and the boundaries between them.
struct TopLevel {
  std::vector<torch::jit::Node *> operators;
  /// boundaries[k] is the index in `operators` at which stage k+1 starts; ascending. A pipec::cut()
  /// at the very end has the index operators.size().
  std::vector<size_t> boundaries;
};
TopLevel topLevelOf(const Model &model);

/// Removes every boundary of the top level.
void removeBoundaries(Model &model);
/// Puts a boundary before every top-level operator for which `wanted` is true, except the first.
void markBoundaries(
    Model &model,
    llvm::function_ref<bool(const std::string &op, const std::string &modulePath, size_t index)>
        wanted);
/// A boundary inside control flow, where it would cut an operator in two.
struct NestedBoundary {
  torch::jit::Node *cut;
  torch::jit::Node *around; // the node whose block it is in
};
/// The first one in program order.
std::optional<NestedBoundary> findNestedBoundary(const Model &model);
/// Whether control flow has a boundary inside.
bool holdsBoundary(torch::jit::Node *node);
/// Removes every boundary inside blocks; those of the top level stay.
void removeNestedBoundaries(Model &model);

/// Per operator and result: the last operator that uses the result, directly or in its blocks, or
/// the maker's own index if no operator does. A return from the graph is not a use.
std::vector<std::vector<size_t>> lastUsesOf(const TopLevel &top);

/// Calls `visit` on every value that the node or the operators in its blocks use, in program order
/// and once per use. Despite the name, values that the blocks define themselves are included: a
/// caller that wants only values from outside skips them.
void forEachOuterUse(torch::jit::Node *node, llvm::function_ref<void(torch::jit::Value *)> visit);

/// The node of the block that is `node` or holds it at some depth. There must be one.
torch::jit::Node *nodeIn(const torch::jit::Block *block, torch::jit::Node *node);

/// Whether the node is in the block, at any depth; whether it is `outer` or inside `outer`.
bool isInside(const torch::jit::Node *node, const torch::jit::Block *block);
bool isInside(const torch::jit::Node *node, const torch::jit::Node *outer);

/// The first node in program order, among the node and those inside it, for which `wanted` is true;
/// nullptr if there is none. Constants are skipped.
torch::jit::Node *firstInside(torch::jit::Node *node,
                              llvm::function_ref<bool(torch::jit::Node *)> wanted);
/// Whether only constants precede `node` in each enclosing block. A cut before the whole top-level
/// operator is then the same cut.
bool isFirstInBlocks(torch::jit::Node *node, torch::jit::Node *topLevel);

/// Pairs (maker, reader) by index, each once, ascending by reader.
std::vector<std::pair<uint32_t, uint32_t>> readsOf(const TopLevel &top);

/// Reorders all operators of the top level; constants come first. There must be no boundaries.
void reorderOperators(Model &model, const std::vector<size_t> &order);
/// The costs of these operators in that order; costs of another number of operators stay.
std::vector<NodeCost> reordered(const std::vector<NodeCost> &costs,
                                const std::vector<size_t> &order);

/// Inserts pipec::cut() before `operator_`.
void insertBoundary(torch::jit::Node *operator_);

} // namespace pipec
