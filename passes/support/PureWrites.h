// What stands for a write that remove-inplace removes: the nodes that make the new value, and
// whether it would have the dtype and strides of the old one, which operators or types tell.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/OperatorFacts.h"

#include <c10/util/ArrayRef.h>

#include <functional>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

struct Layout;
struct TypeAnswers;

/// Of one run of the pass.
class PureWrites {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// noteMade(made, writer) hears of every node that is made.
  PureWrites(TypeAnswers &answers, std::function<void(Node *, Node *)> noteMade);

  // Nodes before the writer; null where operators have no such form.

  /// The writer's pure form on `target`.
  Value *pure(Node *writer, Value *target);

  /// What copy_ copies, in the sizes of the target.
  Value *like(Node *writer, Value *target);

  /// A tensor with the form of `old` and the elements of `by`.
  Value *replaced(Node *writer, Value *old, Value *by);

  // What operators and types tell.

  /// A question to operators (`untyped`) and types, which may answer otherwise: that is noted, and
  /// taken from the notes where they are given.
  bool ask(bool untyped, const Value *value, llvm::function_ref<bool(const Layout &)> predicate);

  static bool hasDims(const Layout &layout);

  /// dtype and strides of the pure form are those of the tensor that is now `now`; contiguous:
  /// known from operators alone.
  bool keepsForm(const Value *now, bool contiguous, const Node *writer, PureForm form);

  /// div_(x, y, rounding_mode=...) is another operator to its gradient.
  static bool hasNoRounding(const Node *writer);

private:
  Value *insert(Node *writer, c10::Symbol kind, at::ArrayRef<Value *> inputs);

  TypeAnswers &answers_;
  size_t run_, question_ = 0;
  std::function<void(Node *, Node *)> noteMade_;
};

} // namespace pipec
