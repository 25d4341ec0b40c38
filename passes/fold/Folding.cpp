#include "passes/fold/Folding.h"

#include "passes/PassContext.h"

namespace pipec {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

Folding::Folding(Model &model, PassContext &context)
    : model_(model), answers_(context.answers), alias_(aliasesOf(model, context)),
      names_(*model.graph) {
  for (const Obligation &known : model.obligations)
    if (known.kind == Obligation::Kind::Fact)
      facts_.insert(toString(known));
}

void Folding::push(Node *node) {
  if (!gone_.count(node) && queued_.insert(node).second)
    work_.push_back(node);
}

void Folding::pushAll(Block *block) {
  for (Node *node : block->nodes()) {
    push(node);
    for (Block *inner : node->blocks())
      pushAll(inner);
  }
}

bool Folding::runToFixpoint(llvm::function_ref<bool(Node *)> rule) {
  pushAll(model_.graph->block());
  bool changed = false;
  // First in, first out: in program order, so that operands are folded before their users.
  for (size_t next = 0; next < work_.size(); ++next) {
    Node *node = work_[next];
    if (gone_.count(node))
      continue;
    queued_.erase(node);
    changed |= rule(node);
  }
  return changed;
}

bool Folding::replace(Value *old, Value *by) {
  if (!old->hasUses())
    return false;
  pushUsers(old);
  old->replaceAllUsesWith(by);
  return true;
}

void Folding::pushUser(Node *user) {
  if (user->kind() != c10::prim::Return)
    push(user);
  else if (Node *owner = user->owningBlock()->owningNode())
    push(owner);
}

void Folding::pushUsers(Value *value) {
  for (const torch::jit::Use &use : value->uses())
    pushUser(use.user);
}

void Folding::replaceUse(torch::jit::Use use, Value *by) {
  use.user->replaceInput(use.offset, by);
  pushUser(use.user);
}

void Folding::refine(Value *value, const c10::TypePtr &type) {
  value->setType(type);
  pushUsers(value);
}

bool Folding::replaceByConstant(Value *old, const c10::IValue &constant) {
  if (!old->hasUses())
    return false;
  Node *node = old->node();
  Node *before = node;
  if (node->kind() == c10::prim::Param)
    before = *node->owningBlock()->nodes().begin();
  torch::jit::WithInsertPoint guard(before);
  Value *made = model_.graph->insertConstant(constant, node->sourceRange(), node->scope());
  if (auto callstack = node->callstack())
    made->node()->setCallStack(*callstack);
  return replace(old, made);
}

void Folding::forget(Block *block) {
  for (Node *node : block->nodes()) {
    gone_.insert(node);
    for (Block *inner : node->blocks())
      forget(inner);
  }
}

void Folding::destroy(Node *node) {
  gone_.insert(node);
  for (Block *block : node->blocks())
    forget(block);
  node->destroy();
}

std::optional<c10::IValue> Folding::constant(const Value *value) {
  if (value->node()->kind() != c10::prim::Constant ||
      value->type()->kind() == c10::TypeKind::TensorType)
    return std::nullopt;
  return torch::jit::toIValue(value);
}

bool Folding::mayBeSeenOutside(const Value *value) const {
  std::optional<size_t> memory = alias_->memoryOf(value);
  return memory && alias_->memories()[*memory].visible();
}

Folding::Node *Folding::fixedContainer(Value *value, c10::Symbol kind) const {
  if (value->node()->kind() != kind || alias_->isWritten(value))
    return nullptr;
  return value->node();
}

} // namespace pipec
