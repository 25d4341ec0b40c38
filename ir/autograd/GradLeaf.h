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

/// Whether a gradient of it can be asked for.
bool mayHaveGradient(const at::Tensor &tensor);

/// The same memory and version, outside any graph but its own: gradients stop at `leaf`. It is no
/// leaf in LibTorch's sense, so a stage may write into it as into any activation.
at::Tensor enter(const at::Tensor &tensor, GradLeaf &leaf);

/// Values that enter or leave a stage. One tensor stays one tensor: models compare identities
/// (`key is value`), and autograd sums the gradients of one tensor in one place.
class TensorDoor {
public:
  /// A tree whose tensors that require gradients entered, with a leaf per tensor in the order of
  /// forEachTensor.
  c10::IValue enterAll(const c10::IValue &value, std::vector<GradLeaf> &leaves);

  /// A tree of the same memory outside any graph, with the place in the graph of each tensor. A
  /// tensor with gradients still says so by requires_grad.
  c10::IValue leaveAll(const c10::IValue &value, std::vector<torch::autograd::Edge> &edges);

private:
  llvm::SmallDenseMap<const void *, std::pair<at::Tensor, GradLeaf>, 4> known_; // only looked up
  llvm::SmallVector<at::Tensor, 4> kept_; // whose addresses are known
};

} // namespace pipec
