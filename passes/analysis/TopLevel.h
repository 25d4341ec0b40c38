// The top level of a flat graph as a list: the operators between which stages can be cut.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Operators of the top level in program order (constants left out) and the boundaries between
/// them.
struct TopLevel {
  std::vector<torch::jit::Node *> operators;
  /// boundaries[k]: stage k+1 starts at this index of `operators`; ascending. A pipec::cut() at the
  /// very end is the size.
  std::vector<size_t> boundaries;
};
TopLevel topLevelOf(const Model &model);

/// Removes every boundary of the top level.
void removeBoundaries(Model &model);
/// Puts a boundary before every top-level operator but the first for which `wanted` is true.
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
/// Removes every boundary inside blocks; those of the top level stay.
void removeNestedBoundaries(Model &model);

/// Per operator and result of it: the last operator that uses the result, itself or in its blocks;
/// the operator's own index when none does. That the graph returns it is no use.
std::vector<std::vector<size_t>> lastUsesOf(const TopLevel &top);

/// Calls `visit` on every value that the node or its blocks use, values that the blocks define
/// themselves included, in program order and once per use.
void forEachOuterUse(torch::jit::Node *node, llvm::function_ref<void(torch::jit::Value *)> visit);

/// The node or one inside it that is `wanted`, first in program order; nullptr when there is none.
/// Constants are left out.
torch::jit::Node *firstInside(torch::jit::Node *node,
                              llvm::function_ref<bool(torch::jit::Node *)> wanted);
/// Only constants stand before `node` in each block around it, so a cut before the whole top-level
/// operator is the same cut.
bool isFirstInBlocks(torch::jit::Node *node, torch::jit::Node *topLevel);

/// Who reads whose results: (maker, reader) by index, each pair once, ascending by reader.
std::vector<std::pair<uint32_t, uint32_t>> readsOf(const TopLevel &top);

/// Puts the operators of the top level, all of them, into this order, with their costs; constants
/// first. Boundaries must not be there.
void reorderOperators(Model &model, const std::vector<size_t> &order);

/// Inserts pipec::cut() before `operator_`.
void insertBoundary(torch::jit::Node *operator_);

} // namespace pipec
