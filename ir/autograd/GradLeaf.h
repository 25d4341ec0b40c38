// Where autograd stops: a value that enters a stage, with a place at which its gradient arrives.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/edge.h>

#include <utility>
#include <vector>

namespace pipec {

/// The gradient of a tensor that enters a stage arrives at `edge`. Nothing is accumulated there:
/// the walk asks for it. A walk may also start there, with what other stages found.
struct GradLeaf {
  torch::autograd::Edge edge; // no node: the tensor has no gradient
  bool isAlias = false;       // of a tensor that entered before, whose leaf has the gradient
};

/// One gradient per tensor of a value, in the order of forEachTensor; undefined: none reached it.
/// Almost all values are one tensor.
using ValueGradients = llvm::SmallVector<at::Tensor, 1>;

/// Whether a gradient of it can be asked for.
bool mayHaveGradient(const at::Tensor &tensor);

/// Whether a hook of the model runs with the node's gradients.
bool hasHooks(torch::autograd::Node &node);

/// Nodes at which gradients arrive. One whose graph has ended serves another graph.
class LeafNodes {
public:
  using NodePtr = decltype(torch::autograd::Edge::function);

  NodePtr take();
  /// Keeps the node if nothing else holds it.
  void giveBack(NodePtr node);

private:
  std::vector<NodePtr> free_;
};

/// The same memory and version, outside any graph but its own: gradients stop at `leaf`, which gets
/// a node of `nodes`. It is no leaf in LibTorch's sense, so a stage may write into it as into any
/// activation.
at::Tensor enter(const at::Tensor &tensor, GradLeaf &leaf, LeafNodes &nodes);

/// Values that enter or leave a stage. One tensor stays one tensor: models compare identities
/// (`key is value`), and autograd sums the gradients of one tensor in one place. After clear() it
/// serves other values.
class TensorDoor {
public:
  /// A tree whose tensors that require gradients entered. Adds a leaf per tensor, in the order of
  /// forEachTensor.
  c10::IValue enterAll(const c10::IValue &value, std::vector<GradLeaf> &leaves, LeafNodes &nodes);

  /// Between the two: all values have entered.
  void beginLeaving();

  /// A tree of the same memory outside any graph. Adds the place in the graph of each tensor. A
  /// tensor with gradients still says so by requires_grad. One that entered leaves as the tensor
  /// that came: a later stage may get both.
  c10::IValue leaveAll(const c10::IValue &value, std::vector<torch::autograd::Edge> &edges);

  void clear() {
    beginLeaving();
    left_.clear();
    came_.clear();
  }

private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  // By the address of what came; only looked up. Each map has as many tensors in every micro-batch:
  // one that is emptied when it has few gives back the memory for many.
  llvm::SmallDenseMap<const void *, std::pair<at::Tensor, GradLeaf>, 4> entered_;
  llvm::SmallDenseMap<const void *, at::Tensor, 4> left_;
  llvm::SmallVector<at::Tensor, 4> kept_; // whose addresses are known
  // What came, by its leaf's node; only looked up. A stage may free it while it runs, and then no
  // later stage has it.
  llvm::SmallDenseMap<const torch::autograd::Node *, WeakTensor, 4> came_;
};

} // namespace pipec
