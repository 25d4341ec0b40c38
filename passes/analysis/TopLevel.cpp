#include "passes/analysis/TopLevel.h"

#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/support/Check.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>
#include <unordered_map>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;

std::optional<NestedBoundary> boundaryIn(Block &block, bool inside) {
  for (Node *node : block.nodes()) {
    if (inside && node->kind() == cutSymbol())
      return NestedBoundary{node, block.owningNode()};
    for (Block *inner : node->blocks())
      if (std::optional<NestedBoundary> found = boundaryIn(*inner, true))
        return found;
  }
  return std::nullopt;
}

void removeBoundariesIn(Block &block) {
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node *node = *it;
    ++it;
    for (Block *inner : node->blocks())
      removeBoundariesIn(*inner);
    if (node->kind() == cutSymbol())
      node->destroy();
  }
}

} // namespace

void forEachOuterUse(Node *node, llvm::function_ref<void(torch::jit::Value *)> visit) {
  for (torch::jit::Value *input : node->inputs())
    visit(input);
  for (Block *block : node->blocks()) {
    for (Node *inner : block->nodes())
      forEachOuterUse(inner, visit);
    for (torch::jit::Value *output : block->outputs())
      visit(output);
  }
}

TopLevel topLevelOf(const Model &model) {
  TopLevel top;
  for (Node *node : model.graph->nodes()) {
    if (node->kind() == cutSymbol())
      top.boundaries.push_back(top.operators.size());
    else if (node->kind() != c10::prim::Constant)
      top.operators.push_back(node);
  }
  return top;
}

void removeBoundaries(Model &model) {
  for (auto it = model.graph->nodes().begin(); it != model.graph->nodes().end();) {
    Node *node = *it;
    ++it;
    if (node->kind() == cutSymbol())
      node->destroy();
  }
}

std::optional<NestedBoundary> findNestedBoundary(const Model &model) {
  return boundaryIn(*model.graph->block(), false);
}

bool holdsBoundary(Node *node) {
  return firstInside(node, [](Node *inner) { return inner->kind() == cutSymbol(); }) != nullptr;
}

void removeNestedBoundaries(Model &model) {
  for (Node *node : model.graph->nodes())
    for (Block *block : node->blocks())
      removeBoundariesIn(*block);
}

std::vector<std::vector<size_t>> lastUsesOf(const TopLevel &top) {
  std::map<Node *, size_t> indexOf; // look-ups only
  for (size_t i = 0; i < top.operators.size(); ++i)
    indexOf[top.operators[i]] = i;
  std::vector<std::vector<size_t>> result(top.operators.size());
  for (size_t i = 0; i < top.operators.size(); ++i) {
    Node *node = top.operators[i];
    for (torch::jit::Value *value : node->outputs()) {
      size_t last = i;
      for (const torch::jit::Use &use : value->uses()) {
        Node *user = nodeIn(node->owningBlock(), use.user);
        if (user->kind() != c10::prim::Return)
          last = std::max(last, indexOf[user]);
      }
      result[i].push_back(last);
    }
  }
  return result;
}

std::vector<std::pair<uint32_t, uint32_t>> readsOf(const TopLevel &top) {
  std::unordered_map<torch::jit::Value *, uint32_t> makers; // look-ups by pointer only
  std::vector<std::pair<uint32_t, uint32_t>> reads;
  for (size_t i = 0; i < top.operators.size(); ++i) {
    std::set<uint32_t> read;
    forEachOuterUse(top.operators[i], [&](torch::jit::Value *value) {
      if (auto maker = makers.find(value); maker != makers.end())
        read.insert(maker->second);
    });
    for (uint32_t maker : read)
      reads.emplace_back(maker, static_cast<uint32_t>(i));
    for (torch::jit::Value *output : top.operators[i]->outputs())
      makers[output] = static_cast<uint32_t>(i);
  }
  return reads;
}

void reorderOperators(Model &model, const std::vector<size_t> &order) {
  const TopLevel top = topLevelOf(model);
  PIPEC_ASSERT(top.boundaries.empty(), "boundaries would lose their places");
  PIPEC_ASSERT(order.size() == top.operators.size(), "the order has each operator once");
  std::vector<Node *> nodes;
  for (Node *node : model.graph->nodes())
    if (node->kind() == c10::prim::Constant)
      nodes.push_back(node);
  for (size_t index : order)
    nodes.push_back(top.operators[index]);
  for (Node *node : nodes)
    node->moveBefore(model.graph->return_node());
}

std::vector<NodeCost> reordered(const std::vector<NodeCost> &costs,
                                const std::vector<size_t> &order) {
  if (costs.size() != order.size())
    return costs;
  std::vector<NodeCost> result;
  for (size_t index : order)
    result.push_back(costs[index]);
  return result;
}

bool isInside(const Node *node, const Block *block) {
  for (const Block *around = node->owningBlock(); around;
       around = around->owningNode() ? around->owningNode()->owningBlock() : nullptr)
    if (around == block)
      return true;
  return false;
}

Node *nodeIn(const Block *block, Node *node) {
  while (node->owningBlock() != block) {
    node = node->owningBlock()->owningNode();
    PIPEC_ASSERT(node, "the block holds the node");
  }
  return node;
}

bool isInside(const Node *node, const Node *outer) {
  while (node && node != outer)
    node = node->owningBlock() ? node->owningBlock()->owningNode() : nullptr;
  return node == outer;
}

Node *firstInside(Node *node, llvm::function_ref<bool(Node *)> wanted) {
  if (wanted(node))
    return node;
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      if (inner->kind() != c10::prim::Constant)
        if (Node *found = firstInside(inner, wanted))
          return found;
  return nullptr;
}

bool isFirstInBlocks(Node *node, Node *topLevel) {
  for (Node *current = node; current != topLevel; current = current->owningBlock()->owningNode())
    for (Node *before = current->prev(); before != current->owningBlock()->param_node();
         before = before->prev())
      if (before->kind() != c10::prim::Constant)
        return false;
  return true;
}

void markBoundaries(
    Model &model,
    llvm::function_ref<bool(const std::string &, const std::string &, size_t)> wanted) {
  TopLevel top = topLevelOf(model);
  for (size_t i = 1; i < top.operators.size(); ++i)
    if (wanted(top.operators[i]->kind().toQualString(), modulePathOf(top.operators[i]), i))
      insertBoundary(top.operators[i]);
}

void insertBoundary(Node *operator_) {
  Node *cut = operator_->owningGraph()->create(cutSymbol(), 0);
  cut->insertBefore(operator_);
  cut->copyMetadata(operator_);
}

} // namespace pipec
