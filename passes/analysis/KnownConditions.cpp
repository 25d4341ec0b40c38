#include "passes/analysis/KnownConditions.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

std::optional<bool> KnownConditions::of(Value *condition) const {
  auto found = known_.find(condition);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void KnownConditions::assume(Value *condition, bool is) {
  if (!known_.emplace(condition, is).second)
    return;
  order_.emplace_back(condition, is);
  torch::jit::Node *node = condition->node();
  if (node->kind() == c10::aten::__not__)
    return assume(node->input(0), !is);
  if (node->kind() != c10::prim::If)
    return;
  for (size_t taken : {0, 1}) {
    Value *other = node->blocks()[1 - taken]->outputs()[condition->offset()];
    if (constant(other) != !is)
      continue;
    assume(node->input(0), taken == 0);
    assume(node->blocks()[taken]->outputs()[condition->offset()], is);
  }
}

std::optional<bool> KnownConditions::constant(Value *value) {
  if (value->node()->kind() != c10::prim::Constant ||
      value->type()->kind() != c10::TypeKind::BoolType)
    return std::nullopt;
  std::optional<c10::IValue> known = torch::jit::toIValue(value);
  return known && known->isBool() ? std::optional(known->toBool()) : std::nullopt;
}

} // namespace pipec
