#include "passes/analysis/SameTensors.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/ReturnedArgument.h"
#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// Containers, casts, and operators on containers: they make no tensor.
bool handsOn(const Node &node) {
  if (node.kind().is_prim()) // tuples and lists have no types in their schemas
    return true;
  const c10::FunctionSchema *schema = node.maybeSchema();
  return schema && llvm::any_of(schema->arguments(), [](const c10::Argument &argument) {
           return argument.type()->hasFreeVariables();
         });
}

bool isMutable(const Node &node) {
  const c10::FunctionSchema *schema = node.maybeSchema();
  return schema && schema->is_mutable() && !node.inputs().empty();
}

} // namespace

SameTensors::Makers SameTensors::makersOf(const Value *value) const {
  const auto known = makers_.find(value);
  return known == makers_.end() ? Makers{value} : known->second;
}

bool SameTensors::maybe(const Value *a, const Value *b) const {
  if (!makers_.count(a) && !makers_.count(b))
    return a == b;
  const Makers ofB = makersOf(b);
  return llvm::any_of(makersOf(a), [&](const Value *maker) { return ofB.count(maker); });
}

bool SameTensors::add(const Value *value, const Value *from) {
  if (!mayHoldTensor(*value->type()) || !mayHoldTensor(*from->type()))
    return false;
  const Makers more = makersOf(from);
  Makers &makers = makers_.try_emplace(value, Makers{value}).first->second;
  const size_t before = makers.size();
  makers.insert(more.begin(), more.end());
  return makers.size() != before;
}

bool SameTensors::visit(const Block &block) {
  bool changed = false;
  for (const Node *node : block.nodes()) {
    if (node->kind() == c10::prim::If)
      changed |= visitIf(*node);
    else if (node->kind() == c10::prim::Loop)
      changed |= visitLoop(*node);
    else
      changed |= visitOperator(*node);
  }
  return changed;
}

bool SameTensors::visitIf(const Node &node) {
  bool changed = false;
  for (const Block *block : node.blocks()) {
    changed |= visit(*block);
    for (size_t i = 0; i < node.outputs().size(); ++i)
      changed |= add(node.output(i), block->outputs()[i]);
  }
  return changed;
}

/// A Loop's inputs are the most iterations, the first condition and the carried values. Its body
/// has the number of the iteration and the carried values, and returns the next condition and the
/// carried values.
bool SameTensors::visitLoop(const Node &node) {
  const Block &body = *node.blocks()[0];
  bool changed = false;
  for (size_t i = 0; i < node.outputs().size(); ++i)
    changed |= add(body.inputs()[i + 1], node.inputs()[i + 2]);
  changed |= visit(body);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    changed |= add(body.inputs()[i + 1], body.outputs()[i + 1]);
    changed |= add(node.output(i), body.inputs()[i + 1]);
  }
  return changed;
}

/// An operator that writes into a container puts its other arguments there; one that writes into a
/// tensor returns it.
bool SameTensors::visitOperator(const Node &node) {
  const bool all = handsOn(node), first = mayReturnArgument(&node) || isMutable(node);
  bool changed = false;
  for (const Value *output : node.outputs())
    for (size_t i = 0; i < node.inputs().size(); ++i)
      if (all || (first && i == 0))
        changed |= add(output, node.inputs()[i]);
  if (all && (isMutable(node) || node.kind() == c10::prim::SetAttr))
    for (const Value *input : node.inputs().slice(1))
      changed |= put(input, node.inputs()[0]);
  return changed;
}

/// Into every container that it may be: what was made of one of these before, a list with it or a
/// branch's result, holds the value as well, and gets it when its operator is visited again.
bool SameTensors::put(const Value *value, const Value *container) {
  bool changed = false;
  for (const Value *maker : makersOf(container))
    if (mayHold(*maker->type()))
      changed |= add(maker, value);
  return changed;
}

} // namespace pipec
