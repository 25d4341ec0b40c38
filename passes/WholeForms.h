// What PyTorch has, in a part without gradients, where a stage has a detached tensor.
#pragma once

#include <unordered_map>

namespace torch::jit {
struct Value;
} // namespace torch::jit

namespace pipec {

/// Tensors that a part without gradients makes have no graph. Views are an exception in PyTorch:
/// there, too, a view of a tensor that requires gradients requires them. BareOperators has views of
/// detached tensors instead. For such a value, this finds the one that requires what the tensor of
/// PyTorch does, and inserts what makes it:
///
///   %w1 = aten::detach(%w)
///   %t1 = aten::t(%w1)           the whole form of %t1 is   %t = aten::t(%w)
///
/// Lists and tuples of views, their elements, and results of branches have whole forms, too.
///
/// A reshape or a flatten returns a view or a copy. Only a run shows which one, so its form decides
/// it there. It does so inside one operator: tensors on both sides of a cut share no memory.
///
///   %r1 = aten::reshape(%w1, %s)    %r = prim::If(is_contiguous(%w1))
///                                     block0():
///                                       -> (aten::reshape(%w, %s))    # a view
///                                     block1():
///                                       -> (aten::reshape(%w, %s) if it is a view, else %r1)
///
/// So does the form of an element of a list whose tensors are written:
///
///   %f1 = %l1[0]                    %f = %l[0] if it is the same view as %f1, else %f1
class WholeForms {
public:
  /// The value is detached from `whole`.
  void addDetached(const torch::jit::Value *value, torch::jit::Value *whole);
  /// An operator made `made` of a detached argument. `chosen` is the whole argument if `made` is
  /// that argument itself.
  void addChosen(torch::jit::Value *made, torch::jit::Value *chosen);

  /// The whole form of the value; the value itself if it has none.
  torch::jit::Value *of(torch::jit::Value *value);

private:
  torch::jit::Value *ofBranches(torch::jit::Value *value);
  torch::jit::Value *ofWrittenTensors(torch::jit::Value *value);

  // Only looked up.
  std::unordered_map<const torch::jit::Value *, torch::jit::Value *> forms_;
  std::unordered_map<const torch::jit::Value *, torch::jit::Value *> sameAs_; // have one form
};

} // namespace pipec
