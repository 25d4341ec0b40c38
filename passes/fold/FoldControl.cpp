#include "passes/fold/FoldControl.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool takeBranch(Folding &folding, Node *node, bool taken) {
  Block *block = node->blocks()[taken ? 0 : 1];
  for (Node *inner = *block->nodes().begin(); inner != block->return_node();) {
    Node *next = inner->next();
    inner->moveBefore(node);
    inner = next;
  }
  for (size_t i = 0; i < node->outputs().size(); ++i)
    folding.replace(node->outputs()[i], block->outputs()[i]);
  folding.destroy(node);
  return true;
}

bool alwaysRaises(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == c10::prim::RaiseException)
      return true;
  }
  return false;
}

bool isDefinedInside(const Value *value, const Block *block) {
  const Node *node = value->node();
  return node->owningBlock() == block;
}

/// The value before casts: a cast narrows the type and makes nothing.
Value *behindCasts(Value *value) {
  while (value->node()->kind() == c10::prim::unchecked_cast ||
         value->node()->kind() == c10::prim::unchecked_unwrap_optional)
    value = value->node()->input(0);
  return value;
}

/// The condition of the branch; whereTrue false: a value that is true where the condition is false.
Value *sameAs(Node *node, bool whereTrue) {
  Value *condition = node->input(0);
  if (whereTrue)
    return condition;
  Node *other = node->owningGraph()->create(c10::aten::__not__, {condition});
  other->insertBefore(node)->copyMetadata(node)->output()->setType(c10::BoolType::get());
  return other->output();
}

/// Nothing runs after a branch that always raises, so the other branch determines the result.
bool foldResult(Folding &folding, Node *node, size_t index) {
  Value *result = node->outputs()[index];
  if (!result->hasUses())
    return false;
  Value *first = node->blocks()[0]->outputs()[index], *second = node->blocks()[1]->outputs()[index];
  if (alwaysRaises(node->blocks()[0]))
    first = second;
  else if (alwaysRaises(node->blocks()[1]))
    second = first;
  std::optional<c10::IValue> a = Folding::constant(first), b = Folding::constant(second);
  if (a && b) {
    const bool plain = (a->isInt() && b->isInt()) || (a->isBool() && b->isBool()) ||
                       (a->isNone() && b->isNone()) || (a->isString() && b->isString());
    if (plain && *a == *b)
      return folding.replaceByConstant(result, *a);
    return a->isBool() && b->isBool() && folding.replace(result, sameAs(node, a->toBool()));
  }
  if (first != second) {
    first = behindCasts(first);
    if (first != behindCasts(second) || !first->type()->isSubtypeOf(*result->type()))
      return false;
  }
  Block *own = alwaysRaises(node->blocks()[0]) ? node->blocks()[1] : node->blocks()[0];
  if (isDefinedInside(first, own))
    return false;
  return folding.replace(result, first);
}

/// Whether `value` is `what` for every path. `known` are values for which this holds already: both
/// branches of an If may lead to the If before it.
bool isAlways(Value *value, Value *what, llvm::DenseSet<Value *> &known) {
  value = behindCasts(value);
  if (value == what || known.count(value))
    return true;
  Node *node = value->node();
  const bool always =
      node->kind() == c10::prim::If && llvm::all_of(node->blocks(), [&](Block *branch) {
        return alwaysRaises(branch) || isAlways(branch->outputs()[value->offset()], what, known);
      });
  if (always)
    known.insert(value);
  return always;
}

/// prim::Loop: a carried value that every iteration passes on unchanged is the initial value.
bool foldCarried(Folding &folding, Node *loop) {
  Block *body = loop->blocks()[0];
  bool changed = false;
  for (size_t i = 0; i < loop->outputs().size(); ++i) {
    Value *carried = body->inputs()[i + 1], *first = loop->input(i + 2);
    llvm::DenseSet<Value *> known;
    if (!isAlways(body->outputs()[i + 1], carried, known))
      continue;
    changed |= folding.replace(carried, first);
    changed |= folding.replace(loop->output(i), first);
  }
  return changed;
}

/// Once folding has removed the None, an Optional result gets the type that both branches return.
bool refineResult(Folding &folding, Node *node, size_t index) {
  Value *result = node->outputs()[index];
  if (result->type()->kind() != c10::TypeKind::OptionalType)
    return false;
  c10::TypePtr common;
  for (Block *block : node->blocks()) {
    c10::TypePtr type = block->outputs()[index]->type();
    if (type->kind() == c10::TypeKind::TensorType)
      type = c10::TensorType::get();
    if (common && *common != *type)
      return false;
    common = type;
  }
  if (common->kind() == c10::TypeKind::OptionalType)
    return false;
  folding.refine(result, common);
  return true;
}

} // namespace

bool foldControl(Folding &folding, Node *node) {
  if (node->kind() == c10::prim::Loop)
    return foldCarried(folding, node);
  if (node->kind() != c10::prim::If)
    return false;
  std::optional<c10::IValue> condition = Folding::constant(node->input(0));
  if (condition && condition->isBool())
    return takeBranch(folding, node, condition->toBool());
  bool changed = false;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    changed |= refineResult(folding, node, i);
    changed |= foldResult(folding, node, i);
  }
  return changed;
}

} // namespace pipec
