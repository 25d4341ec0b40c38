// What is known of booleans inside a branch, from the conditions of the branches around it.
#pragma once

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>

namespace pipec {

/// Conditions that hold inside a block, found from the branches around it.
class KnownConditions {
public:
  using Value = torch::jit::Value;

  std::optional<bool> of(Value *condition) const {
    auto found = known_.find(condition);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  /// In the order in which they were assumed.
  const std::vector<std::pair<Value *, bool>> &all() const { return order_; }

  /// The condition is `is`, and so is what it follows from: of `not c` c, of `c and d` both.
  void assume(Value *condition, bool is) {
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

  static std::optional<bool> constant(Value *value) {
    if (value->node()->kind() != c10::prim::Constant ||
        value->type()->kind() != c10::TypeKind::BoolType)
      return std::nullopt;
    std::optional<c10::IValue> known = torch::jit::toIValue(value);
    return known && known->isBool() ? std::optional(known->toBool()) : std::nullopt;
  }

private:
  std::map<Value *, bool> known_; // looked up only
  std::vector<std::pair<Value *, bool>> order_;
};

} // namespace pipec
