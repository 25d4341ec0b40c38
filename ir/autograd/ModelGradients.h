// The gradients of an unsplit model.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// A tensor of a module that is trained.
struct TrainedTensor {
  std::vector<std::string>
      names; // all that the module has for this tensor; not those of its views.
             // A parameter's is first, also if a buffer is the same tensor
  at::Tensor tensor;
};

/// Whether a backward may start or end at it. A view that was made without gradients requires what
/// its tensor does, and none reaches it.
bool hasGradientEdge(const at::Tensor &tensor);

/// In the order in which the module has their first names, as named_parameters() does. Names of one
/// tensor are one entry. Call before the first forward: the model may write other tensors into its
/// attributes.
std::vector<TrainedTensor> trainedTensors(const torch::jit::Module &module);

/// Walks back from `root` with `scale`, and frees the graph. One gradient per tensor, as it would
/// be added to its `grad`; undefined where the backward does not reach, as everywhere if `root` has
/// no graph. Throws LibTorch's exceptions.
std::vector<at::Tensor> gradientsFrom(const at::Tensor &root, const at::Tensor &scale,
                                      const std::vector<TrainedTensor> &tensors);

} // namespace pipec
