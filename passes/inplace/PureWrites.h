// The replacement of a write that remove-inplace removes: the nodes that make the new value, and
// whether it would have the dtype and strides of the old one, which operators or types tell.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/support/OperatorNames.h"

#include <c10/util/ArrayRef.h>

#include <functional>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

struct Layout;
struct Model;
struct TypeAnswers;

/// The state of one run of the pass.
class PureWrites {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// noteMade(made, writer) hears of every node that is made.
  PureWrites(Model &model, TypeAnswers &answers, bool trains,
             std::function<void(Node *, Node *)> noteMade);

  // Nodes before the writer; null where operators have no such form.

  /// The writer's pure form on `target`.
  Value *pure(Node *writer, Value *target);

  /// The source of copy_, expanded to the sizes of the target.
  Value *like(Node *writer, Value *target);

  /// A tensor with the form of `old` and the elements of `by`.
  Value *replaced(Node *writer, Value *old, Value *by);

  /// In training, what has the gradient of `value`, contiguous whatever reads it; else `value`. A
  /// write into a part goes backward so (CopySlices of LibTorch): it hands on a contiguous copy of
  /// the whole's gradient, and one of the part's. Kernels give other bits for other strides.
  Value *withContiguousGradient(Node *writer, Value *value);

  // Facts from operators and types.

  // `untyped` is the answer that follows from the operators alone. A different answer from the
  // types of values takes precedence and is noted in the TypeAnswers. If the TypeAnswers are given,
  // they replace the types. `asker` is the operator that writes the value or is a view of it; it
  // names the question.

  /// The result is new, contiguous and, in training, of real numbers: some pure forms have no
  /// derivative for complex ones. From the operator alone.
  bool makesContiguous(Node *maker) const;
  bool isContiguous(bool untyped, Node *asker, const Value *value);
  bool hasDims(Node *asker, const Value *value);

  /// dtype and strides of the pure form are those of the tensor that is now `now`; contiguous:
  /// known from operators alone.
  bool keepsForm(const Value *now, bool contiguous, Node *writer, PureForm form);

  /// div_(x, y, rounding_mode=...) is another operator to its gradient.
  static bool hasNoRounding(const Node *writer);

private:
  bool makesDense(const Value *now, const Node *writer) const;
  bool ask(const char *property, bool untyped, Node *asker, const Value *value,
           llvm::function_ref<bool(const Layout &)> predicate);
  Value *insert(Node *writer, c10::Symbol kind, at::ArrayRef<Value *> inputs);

  TypeAnswers &answers_;
  bool trains_;
  bool trainsComplex_; // some weights are complex
  OperatorNames names_;
  std::function<void(Node *, Node *)> noteMade_;
};

} // namespace pipec
