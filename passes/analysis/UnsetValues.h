// Results of control flow that may be unset (prim::Uninitialized).
//
// LibTorch lowers `if c: return a` in the middle of a function to two branches:
//
//   %did : bool, %ret : Tensor = prim::If(%c)    -> (true, a) or (false, prim::Uninitialized)
//   %y : Tensor = prim::If(%did)                 -> (%ret) or (what follows the return)
//
// %ret is unset only where %did is false, so %y has a value on every path and may travel between
// stages; %ret may not. A return inside a loop carries the same pair from iteration to iteration.
#pragma once

#include "llvm/ADT/DenseMap.h"

#include <c10/util/ArrayRef.h>

#include <set>
#include <utility>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

class KnownConditions;

class UnsetValues {
public:
  explicit UnsetValues(torch::jit::Block &block);

  /// Whether some path leaves `value` unset and continues.
  bool maybe(torch::jit::Value *value) const { return unset_.count(value); }

private:
  using Block = torch::jit::Block;
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Flag = std::pair<Value *, bool>;

  bool maybe(Value *value, const KnownConditions &known) const;
  /// Whether `flag` is `is` wherever `value` is unset.
  bool implies(Value *value, Value *flag, bool is) const;
  void visit(Block &block, const KnownConditions &known);
  void visitIf(Node *node, const KnownConditions &known);
  /// Starts from the assumption that carried values are set, or unset only together with every
  /// flag. Rounds remove flags until nothing changes.
  void visitLoop(Node *node, const KnownConditions &known);
  /// Merges `from[i]` into carried value `i`. Returns true if less is known of it now.
  bool intersect(at::ArrayRef<Value *> from, size_t i, at::ArrayRef<Value *> carried,
                 const KnownConditions &known, bool isFirst);

  llvm::DenseMap<Value *, std::set<Flag>> unset_; // with the flags that hold wherever it is unset
};

} // namespace pipec
