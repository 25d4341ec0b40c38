#include "passes/analysis/UnsetValues.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/KnownConditions.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using Flag = std::pair<Value *, bool>;

bool raises(Block &block) {
  return llvm::any_of(block.nodes(),
                      [](const Node *inner) { return inner->kind() == c10::prim::RaiseException; });
}

void addCondition(Value *condition, bool is, std::set<Flag> &only) {
  only.insert({condition, is});
  if (condition->node()->kind() == c10::aten::__not__)
    addCondition(condition->node()->input(0), !is, only);
}

void addFlags(at::ArrayRef<Value *> outputs, std::set<Flag> &only,
              llvm::function_ref<bool(size_t, bool)> holds) {
  for (size_t flag = 0; flag < outputs.size(); ++flag)
    for (bool is : {false, true})
      if (outputs[flag]->type()->kind() == c10::TypeKind::BoolType && holds(flag, is))
        only.insert({outputs[flag], is});
}

} // namespace

UnsetValues::UnsetValues(torch::jit::Block &block) { visit(block, {}); }

bool UnsetValues::maybe(Value *value, const KnownConditions &known) const {
  auto found = unset_.find(value);
  return found != unset_.end() && llvm::none_of(found->second, [&](const Flag &flag) {
           return known.of(flag.first) == !flag.second;
         });
}

bool UnsetValues::implies(Value *value, Value *flag, bool is) const {
  if (std::optional<bool> constant = KnownConditions::constant(flag))
    return *constant == is;
  auto found = unset_.find(value);
  return found != unset_.end() && found->second.count({flag, is});
}

void UnsetValues::visit(Block &block, const KnownConditions &known) {
  for (Node *node : block.nodes()) {
    if (node->kind() == c10::prim::Uninitialized)
      unset_[node->output()];
    else if (node->kind() == c10::prim::If)
      visitIf(node, known);
    else if (node->kind() == c10::prim::Loop)
      visitLoop(node, known);
  }
}

void UnsetValues::visitIf(Node *node, const KnownConditions &known) {
  KnownConditions inside[2] = {known, known};
  for (size_t k : {0, 1}) {
    inside[k].assume(node->input(0), k == 0);
    visit(*node->blocks()[k], inside[k]);
  }
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    std::vector<size_t> where; // branches that leave it unset; a branch that raises does not count
    for (size_t k : {0, 1})
      if (!raises(*node->blocks()[k]) && maybe(node->blocks()[k]->outputs()[i], inside[k]))
        where.push_back(k);
    unset_.erase(node->output(i));
    if (where.empty())
      continue;
    std::set<Flag> &only = unset_[node->output(i)];
    if (where.size() == 1)
      addCondition(node->input(0), where[0] == 0, only);
    addFlags(node->outputs(), only, [&](size_t flag, bool is) {
      return llvm::all_of(where, [&](size_t k) {
        at::ArrayRef<Value *> outputs = node->blocks()[k]->outputs();
        return implies(outputs[i], outputs[flag], is);
      });
    });
  }
}

void UnsetValues::visitLoop(Node *node, const KnownConditions &known) {
  Block *body = node->blocks()[0];
  at::ArrayRef<Value *> carried = body->inputs().slice(1), returned = body->outputs().slice(1),
                        first = node->inputs().slice(2);
  for (size_t i = 0; i < carried.size(); ++i)
    intersect(first, i, carried, known, /*isFirst=*/true);
  for (bool changed = true; changed;) {
    visit(*body, known);
    changed = false;
    for (size_t i = 0; i < carried.size(); ++i)
      changed |= intersect(returned, i, carried, known, /*isFirst=*/false);
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    unset_.erase(node->output(i));
    auto found = unset_.find(carried[i]);
    if (found == unset_.end())
      continue;
    std::set<Flag> only;
    for (size_t flag = 0; flag < carried.size(); ++flag)
      for (bool is : {false, true})
        if (found->second.count({carried[flag], is}))
          only.insert({node->output(flag), is});
    unset_[node->output(i)] = std::move(only);
  }
}

bool UnsetValues::intersect(at::ArrayRef<Value *> from, size_t i, at::ArrayRef<Value *> carried,
                            const KnownConditions &known, bool isFirst) {
  if (isFirst)
    unset_.erase(carried[i]);
  if (!maybe(from[i], known))
    return false;
  std::set<Flag> holds;
  addFlags(carried, holds, [&](size_t flag, bool is) { return implies(from[i], from[flag], is); });
  auto [found, isNew] = unset_.try_emplace(carried[i], holds);
  if (isNew)
    return true;
  const size_t before = found->second.size();
  std::set<Flag> both;
  for (const Flag &flag : found->second)
    if (holds.count(flag))
      both.insert(flag);
  found->second = std::move(both);
  return found->second.size() != before;
}

} // namespace pipec
