#include "passes/inplace/StateSnapshots.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

class StateSnapshots {
public:
  StateSnapshots(Model &model, const AliasAnalysis &alias,
                 const std::vector<std::vector<size_t>> &heldBy)
      : model_(model), alias_(alias), heldBy_(heldBy) {}

  bool make() {
    if (dropSelfAssignments())
      return true; // the analysis took it for an assignment
    if (model_.mode != Mode::Infer)
      return false; // a forward that runs again for its gradients meets newer state
    bool changed = false;
    for (size_t i = 0; i < alias_.memories().size(); ++i) {
      const AliasAnalysis::Memory &memory = alias_.memories()[i];
      if (memory.attribute && memory.written() && memory.lastTouch > memory.lastWrite &&
          mayBeCopied(i))
        changed |= copyFor(memory);
    }
    return changed;
  }

private:
  bool dropSelfAssignments() {
    const size_t leaves = model_.signature.leaves.size(), before = model_.stateOutputs.size();
    for (size_t i = before; i-- > 0;) {
      Value *state = model_.graph->inputs()[model_.argumentCount() + model_.stateOutputs[i]];
      Value *assigned = model_.graph->outputs()[leaves + i];
      std::optional<size_t> memory = alias_.memoryOf(assigned);
      if (!memory || sameTensors(alias_.memories()[*memory]).lookup(assigned) != state)
        continue;
      model_.graph->eraseOutput(leaves + i);
      model_.stateOutputs.erase(model_.stateOutputs.begin() + static_cast<int64_t>(i));
    }
    return model_.stateOutputs.size() < before;
  }

  /// Maps values that are the tensor of an attribute itself to that attribute's graph input:
  /// results of writers, and results that both branches give.
  llvm::MapVector<Value *, Value *> sameTensors(const AliasAnalysis::Memory &memory) const {
    llvm::MapVector<Value *, Value *> same;
    for (Value *value : memory.values) {
      Node *maker = value->node();
      Value *state = nullptr;
      if (attributeOf(value))
        state = value;
      else if (maker->kind().is_aten() && returnsWrittenValue(maker))
        state = same.lookup(maker->input(0));
      else if (maker->kind() == c10::prim::If)
        state = sameInBranches(maker, value->offset(), same);
      if (state)
        same[value] = state;
    }
    return same;
  }

  static Value *sameInBranches(Node *node, size_t output,
                               const llvm::MapVector<Value *, Value *> &same) {
    Value *state = same.lookup(node->blocks()[0]->outputs()[output]);
    return state == same.lookup(node->blocks()[1]->outputs()[output]) ? state : nullptr;
  }

  /// Whether no code outside this run gets the tensor itself, and all writes happen in place.
  bool mayBeCopied(size_t number) const {
    const AliasAnalysis::Memory &memory = alias_.memories()[number];
    if (memory.userInput || llvm::any_of(memory.writers, [](const Node *writer) {
          return !writer->kind().is_aten() || mayChangeForm(writer);
        }))
      return false;
    // The memory itself, and whatever may hold it at any depth.
    std::vector<size_t> work = {number};
    llvm::DenseSet<size_t> done;
    while (!work.empty()) {
      const size_t next = work.back();
      work.pop_back();
      if (!done.insert(next).second)
        continue;
      const AliasAnalysis::Memory &holder = alias_.memories()[next];
      if (holder.returned || (next != number && (holder.attribute || holder.userInput)))
        return false;
      work.insert(work.end(), heldBy_[next].begin(), heldBy_[next].end());
    }
    return true;
  }

  bool copyFor(const AliasAnalysis::Memory &memory) {
    number();
    Node *last = at_[memory.lastWrite];
    if (!isReadFarBehind(memory, last))
      return false;
    llvm::DenseMap<Value *, Node *> copies = copiesBehind(last);
    bool changed = false;
    for (const auto &[value, state] : sameTensors(memory)) {
      if (!keepsStridesInCopy(*attributeOf(state)))
        continue;
      std::vector<torch::jit::Use> late;
      for (const torch::jit::Use &use : value->uses())
        if (copies.lookup(state) != use.user && isBehind(use.user, last))
          late.push_back(use);
      if (late.empty())
        continue;
      Node *&copy = copies[state];
      if (!copy)
        copy = copyOf(state, last);
      for (const torch::jit::Use &use : late)
        use.user->replaceInput(use.offset, copy->output());
      changed = true;
    }
    return changed;
  }

  /// Top-level nodes by the positions of the analysis, and back. New nodes get none.
  void number() {
    if (!at_.empty())
      return;
    for (Node *node : model_.graph->nodes()) {
      position_[node] = static_cast<int64_t>(at_.size());
      at_.push_back(node);
    }
  }

  /// Null unless the value is the graph input of an attribute.
  const Attribute *attributeOf(const Value *value) const {
    const size_t arguments = model_.argumentCount();
    return value->node() == model_.graph->param_node() && value->offset() >= arguments
               ? &model_.attributes[value->offset() - arguments]
               : nullptr;
  }

  /// Every micro-batch pays for a copy, whether a cut is there or not.
  static constexpr size_t kMostBytes = size_t(1) << 20;

  static bool keepsStridesInCopy(const Attribute &attribute) {
    if (!attribute.value.isTensor() || attribute.requiresGrad)
      return false;
    const at::Tensor &tensor = attribute.value.toTensor();
    return tensor.defined() && tensor.nbytes() <= kMostBytes && !tensor.requires_grad() &&
           tensor.layout() == at::kStrided && !tensor.is_quantized() &&
           tensor.is_non_overlapping_and_dense();
  }

  static bool isCopy(const Node *node) {
    return node->kind() == c10::aten::clone && node->inputs().size() == 2 &&
           node->input(1)->type()->kind() == c10::TypeKind::NoneType;
  }

  /// The copies that an earlier run of the pass inserted directly after the write, by the value
  /// that they copy.
  llvm::DenseMap<Value *, Node *> copiesBehind(Node *last) const {
    llvm::DenseMap<Value *, Node *> copies;
    for (Node *node = last->next(); node != model_.graph->return_node(); node = node->next()) {
      if (node->kind() == c10::prim::Constant)
        continue;
      if (!isCopy(node))
        break;
      copies.try_emplace(node->input(0), node);
    }
    return copies;
  }

  /// Something touches the memory later than the operator after its last write: between these two
  /// there is hardly a place to cut.
  bool isReadFarBehind(const AliasAnalysis::Memory &memory, Node *last) const {
    Node *next = last->next();
    while (next->kind() == c10::prim::Constant)
      next = next->next();
    auto found = position_.find(next);
    return found == position_.end() || memory.lastTouch > found->second;
  }

  bool isBehind(Node *user, Node *last) const {
    auto found = position_.find(nodeIn(model_.graph->block(), user));
    return found != position_.end() && found->second > position_.lookup(last);
  }

  Node *copyOf(Value *state, Node *last) const {
    torch::jit::WithInsertPoint guard(last->next());
    Value *none = model_.graph->insertConstant(c10::IValue());
    Node *copy = model_.graph->create(c10::aten::clone, {state, none});
    copy->insertAfter(none->node())->copyMetadata(last);
    copy->output()->setType(state->type());
    return copy;
  }

  Model &model_;
  const AliasAnalysis &alias_;
  const std::vector<std::vector<size_t>> &heldBy_;
  std::vector<Node *> at_;
  llvm::DenseMap<const Node *, int64_t> position_;
};

} // namespace

bool makeStateSnapshots(Model &model, const AliasAnalysis &alias,
                        const std::vector<std::vector<size_t>> &heldBy) {
  return StateSnapshots(model, alias, heldBy).make();
}

} // namespace pipec
