// dead-code: removes operators that no result, visible write or side effect needs.
#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool draws(Node *node) {
  if (isRandomOp(node->kind().toQualString()))
    return drawsOf(node) != Draws::Never; // dropout that is switched off draws nothing
  return node->isNondeterministic();
}

/// A random operator stays even if its result is unused. When LibTorch reads a file, it drops
/// operators whose results are unused in their function, but it runs those inside a called
/// function, and each of these takes an ordinal.
bool mustStay(Node *node) {
  if (node->kind() == cutSymbol() || node->kind() == pipeSplitSymbol())
    return true;
  if (draws(node))
    return true;
  // LibTorch's hasSideEffects throws for operators without a schema.
  return (node->maybeOperator() || node->kind().is_prim()) && node->hasSideEffects();
}

/// Marks needed values, backwards from results, effects and visible writes. A slot is one carried
/// value of a Loop: its initial value, body input, body output and result are needed together or
/// not at all.
class Liveness {
public:
  Liveness(Model &model, const AliasAnalysis &alias)
      : alias_(alias), live_(alias.memories().size()) {
    for (Value *output : model.graph->outputs())
      needValue(output);
    needEffects(model.graph->block());
    for (const AliasAnalysis::Effect &effect : alias.effects())
      needNode(effect.node);
    for (size_t i = 0; i < alias.memories().size(); ++i) {
      if (alias.memories()[i].visible())
        needMemory(i);
    }
    while (!work_.empty()) {
      Node *node = work_.back();
      work_.pop_back();
      process(node);
    }
  }

  bool isLive(Node *node) const { return nodes_.count(node); }
  bool isLive(Value *value) const { return values_.count(value); }
  bool isSlotLive(Node *loop, size_t slot) const {
    return isLive(loop->outputs()[slot]) || isLive(loop->blocks()[0]->inputs()[slot + 1]);
  }

private:
  void needEffects(Block *block) {
    for (Node *node : block->nodes()) {
      if (mustStay(node))
        needNode(node);
      for (Block *inner : node->blocks())
        needEffects(inner);
    }
  }

  void needNode(Node *node) {
    if (nodes_.insert(node).second)
      work_.push_back(node);
  }

  void needMemory(size_t memory) {
    std::vector<size_t> pending{memory};
    while (!pending.empty()) {
      const size_t next = pending.back();
      pending.pop_back();
      if (live_[next])
        continue;
      live_[next] = true;
      for (Node *writer : alias_.memories()[next].writers)
        needNode(writer);
      const std::vector<size_t> &holds = alias_.memories()[next].holds;
      pending.insert(pending.end(), holds.begin(), holds.end());
    }
  }

  void needValue(Value *value) {
    if (!values_.insert(value).second)
      return;
    if (std::optional<size_t> memory = alias_.memoryOf(value))
      needMemory(*memory);
    Node *node = value->node();
    if (node->kind() != c10::prim::Param) {
      needNode(node);
      if (node->kind() == c10::prim::If)
        needIfOutput(node, value->offset());
      if (node->kind() == c10::prim::Loop)
        needSlot(node, value->offset());
      return;
    }
    Node *owner = node->owningBlock()->owningNode();
    if (!owner)
      return; // a graph input
    needNode(owner);
    if (owner->kind() == c10::prim::Loop && value->offset() > 0)
      needSlot(owner, value->offset() - 1);
  }

  void needIfOutput(Node *node, size_t index) {
    for (Block *block : node->blocks())
      needValue(block->outputs()[index]);
  }

  void needSlot(Node *loop, size_t slot) {
    Block *body = loop->blocks()[0];
    needValue(loop->inputs()[slot + 2]);
    needValue(body->inputs()[slot + 1]);
    needValue(body->outputs()[slot + 1]);
  }

  void process(Node *node) {
    if (Node *owner = node->owningBlock()->owningNode())
      needNode(owner);
    if (node->kind() == c10::prim::If) {
      needValue(node->input(0));
      return;
    }
    if (node->kind() == c10::prim::Loop) {
      needValue(node->input(0));
      needValue(node->input(1));
      needValue(node->blocks()[0]->outputs()[0]);
      return;
    }
    for (Value *input : node->inputs())
      needValue(input);
    for (Block *block : node->blocks()) { // of an unknown operator: all of it
      for (Node *inner : block->nodes())
        needNode(inner);
      for (Value *output : block->outputs())
        needValue(output);
    }
  }

  const AliasAnalysis &alias_;
  std::vector<bool> live_; // by memory
  llvm::DenseSet<Node *> nodes_;
  llvm::DenseSet<Value *> values_;
  std::vector<Node *> work_;
};

class DeadCode : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    const std::shared_ptr<const AliasAnalysis> alias = aliasesOf(model, context);
    Liveness live(model, *alias);
    changed_ = false;
    cutUses(model.graph->block(), live);
    sweep(model.graph->block(), live);
    return changed_;
  }

private:
  /// First removes every use of a dead value by a live block or loop, so that no reference remains
  /// to destroyed nodes.
  void cutUses(Block *block, const Liveness &live) {
    for (Node *node : block->nodes()) {
      if (!live.isLive(node))
        continue;
      if (node->kind() == c10::prim::If) {
        for (size_t i = node->outputs().size(); i-- > 0;) {
          if (live.isLive(node->outputs()[i]))
            continue;
          for (Block *inner : node->blocks())
            inner->eraseOutput(i);
        }
      }
      if (node->kind() == c10::prim::Loop) {
        for (size_t i = node->outputs().size(); i-- > 0;) {
          if (live.isSlotLive(node, i))
            continue;
          node->removeInput(i + 2);
          node->blocks()[0]->eraseOutput(i + 1);
        }
      }
      for (Block *inner : node->blocks())
        cutUses(inner, live);
    }
  }

  void sweep(Block *block, const Liveness &live) {
    for (Node *node = block->return_node()->prev(); node != block->param_node();) {
      Node *before = node->prev();
      if (!live.isLive(node)) {
        node->destroy();
        changed_ = true;
        node = before;
        continue;
      }
      std::vector<bool> slots(node->outputs().size(), true);
      const bool isIf = node->kind() == c10::prim::If, isLoop = node->kind() == c10::prim::Loop;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (isIf)
          slots[i] = live.isLive(node->outputs()[i]);
        if (isLoop)
          slots[i] = live.isSlotLive(node, i);
      }
      for (Block *inner : node->blocks())
        sweep(inner, live);
      for (size_t i = slots.size(); i-- > 0;) {
        if (slots[i])
          continue;
        changed_ = true;
        node->eraseOutput(i);
        if (isLoop)
          node->blocks()[0]->eraseInput(i + 1);
      }
      node = before;
    }
  }

  bool changed_ = false;
};

} // namespace

PassInfo deadCode() {
  return {.name = "dead-code",
          .description = "removes nodes, block results and carried values that no result, visible "
                         "write or side effect needs",
          .requires_ = "a flat graph",
          .guarantees =
              "random operators, raised errors, prints, markers, and observable writes stay",
          .example = R"(
    %2 : Tensor = aten::relu(%1)
    %3 : Tensor = aten::neg(%1)
    return (%2)
    =>
    %2 : Tensor = aten::relu(%1)
    return (%2))",
          .make = withoutOptions<DeadCode>()};
}

} // namespace pipec
