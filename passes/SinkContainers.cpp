#include "passes/SinkContainers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/CutLegality.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// Puts containers together, whatever is in them.
bool isLight(Node *node) {
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      if (!isLight(inner))
        return false;
  switch (node->kind()) {
  case c10::prim::Constant:
  case c10::prim::ListConstruct:
  case c10::prim::DictConstruct:
  case c10::prim::TupleConstruct:
  case c10::prim::unchecked_cast:
  case c10::prim::If:
  case c10::aten::__is__:
  case c10::aten::__isnot__:
    return true;
  default:
    break;
  }
  if (node->inputs().empty() || !isListOrDict(*node->input(0)->type()))
    return false;
  const Change change = changeOf(node);
  return node->kind() == c10::aten::copy || change == Change::Append || change == Change::Extend ||
         change == Change::SetDefault ||
         (change == Change::Set && node->input(0)->type()->kind() == c10::TypeKind::DictType);
}

bool isLightMaker(Node *node) {
  return node->kind() != c10::prim::Constant && node->outputs().size() == 1 && isLight(node) &&
         isListOrDict(*withoutNone(node->output()->type()));
}

bool isBesides(Node *node) { return node->kind() == c10::prim::Constant || isLightMaker(node); }

/// Only containers are put together between the two.
bool isClose(Node *node, Node *user) {
  do
    node = node->next();
  while (node != user && isLight(node));
  return node == user;
}

/// The node and all inside its blocks.
void forEachInside(Node *node, llvm::function_ref<void(Node *)> visit) {
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      forEachInside(inner, visit);
  visit(node);
}

class SinkContainers {
public:
  SinkContainers(Block *top, const AliasAnalysis &alias) : top_(top), alias_(alias) {
    int64_t position = 0;
    for (Node *node : top->nodes())
      positions_[node] = position++;
  }

  /// Last makers first, so that those before them can follow.
  bool run() {
    bool changed = false;
    for (Node *node = top_->return_node()->prev(); node != top_->param_node();) {
      Node *before = node->prev();
      changed |= sink(node);
      node = before;
    }
    return changed;
  }

private:
  Node *topLevel(Node *node) const { return nodeIn(top_, node); }

  /// Operators that make containers, one directly after the other, and the operator that alone
  /// writes to these containers.
  struct Unit {
    std::vector<Node *> makers;
    Node *writer = nullptr;
  };

  std::optional<Unit> unitOf(Node *maker) const {
    Unit unit{{maker}};
    for (Node *writer : memoryOf(maker).writers) {
      Node *node = topLevel(writer);
      if (unit.writer && node != unit.writer)
        return std::nullopt;
      unit.writer = node;
    }
    if (!unit.writer)
      return unit;
    if (!standsRightBefore(maker, unit.writer) || !isLight(unit.writer) ||
        !unit.writer->outputs().empty())
      return std::nullopt;
    llvm::DenseSet<size_t> written;
    forEachInside(unit.writer, [&](Node *node) {
      written.insert(alias_.writesOf(node).begin(), alias_.writesOf(node).end());
    });
    unit.makers.clear();
    for (Node *node = unit.writer->prev(); isBesides(node); node = node->prev())
      if (node->kind() != c10::prim::Constant && alias_.memoryOf(node->output()) &&
          written.erase(*alias_.memoryOf(node->output())))
        unit.makers.insert(unit.makers.begin(), node);
    return written.empty() ? std::optional<Unit>(std::move(unit)) : std::nullopt;
  }

  const AliasAnalysis::Memory &memoryOf(Node *maker) const {
    return alias_.memories()[*alias_.memoryOf(maker->output())];
  }

  bool sink(Node *maker) {
    if (!isLightMaker(maker) || canTravel(*maker->output()->type()) ||
        !alias_.memoryOf(maker->output()) || memoryOf(maker).attribute || memoryOf(maker).userInput)
      return false;
    std::optional<Unit> unit = unitOf(maker);
    if (!unit)
      return false;
    std::vector<Node *> nodes = unit->makers;
    if (unit->writer)
      nodes.push_back(unit->writer);
    Node *user = firstUser(nodes);
    if (!user || user->isBefore(nodes.back()) || isClose(nodes.back(), user) ||
        readsChangedMemory(nodes))
      return false;
    for (Node *node : nodes)
      node->moveBefore(user);
    return true;
  }

  /// The first node at top level that uses what the unit has made.
  Node *firstUser(llvm::ArrayRef<Node *> unit) const {
    Node *first = nullptr;
    for (Node *node : unit)
      for (Value *made : node->outputs())
        for (const torch::jit::Use &use : made->uses()) {
          Node *user = topLevel(use.user);
          if (!llvm::is_contained(unit, user) && (!first || user->isBefore(first)))
            first = user;
        }
    return first;
  }

  /// A container that the unit reads is written later, perhaps before the first user.
  bool readsChangedMemory(llvm::ArrayRef<Node *> unit) const {
    llvm::DenseSet<size_t> own;
    for (Node *node : unit)
      for (Value *made : node->outputs())
        own.insert(*alias_.memoryOf(made));
    bool found = false;
    for (Node *node : unit)
      forEachInside(node, [&](Node *inner) {
        for (Value *value : inner->inputs()) {
          std::optional<size_t> memory = alias_.memoryOf(value);
          found |= memory && !own.count(*memory) &&
                   value->type()->kind() != c10::TypeKind::TensorType &&
                   alias_.memories()[*memory].lastWrite >= positions_.lookup(unit[0]);
        }
      });
    return found;
  }

  Block *top_;
  const AliasAnalysis &alias_;
  llvm::DenseMap<const Node *, int64_t> positions_;
};

} // namespace

bool sinkContainers(Block *top, const AliasAnalysis &alias) {
  return SinkContainers(top, alias).run();
}

bool standsRightBefore(const Node *maker, Node *user) {
  Node *node = user->prev();
  while (node != maker && isBesides(node))
    node = node->prev();
  return node == maker;
}

} // namespace pipec
