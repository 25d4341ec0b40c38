// Known values of booleans inside a branch, derived from the conditions of the enclosing branches.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace torch::jit {
struct Value;
}

namespace pipec {

/// The conditions that hold inside a block, found from the enclosing branches.
class KnownConditions {
public:
  using Value = torch::jit::Value;

  std::optional<bool> of(Value *condition) const;
  /// In the order in which they were assumed.
  const std::vector<std::pair<Value *, bool>> &all() const { return order_; }

  /// Assumes that the condition is `is`, and what follows from that: for `not c` the value of c,
  /// for `c and d` being true that both are true.
  void assume(Value *condition, bool is);

  static std::optional<bool> constant(Value *value);

private:
  std::map<Value *, bool> known_; // look-ups only
  std::vector<std::pair<Value *, bool>> order_;
};

} // namespace pipec
