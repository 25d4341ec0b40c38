// What is known of booleans inside a branch, from the conditions of the branches around it.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace torch::jit {
struct Value;
}

namespace pipec {

/// Conditions that hold inside a block, found from the branches around it.
class KnownConditions {
public:
  using Value = torch::jit::Value;

  std::optional<bool> of(Value *condition) const;
  /// In the order in which they were assumed.
  const std::vector<std::pair<Value *, bool>> &all() const { return order_; }

  /// The condition is `is`, and so is what it follows from: of `not c` c, of `c and d` both.
  void assume(Value *condition, bool is);

  static std::optional<bool> constant(Value *value);

private:
  std::map<Value *, bool> known_; // looked up only
  std::vector<std::pair<Value *, bool>> order_;
};

} // namespace pipec
