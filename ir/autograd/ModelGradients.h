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

/// In the order in which the module has their first names, as named_parameters() does. Names of one
/// tensor are one entry.
std::vector<TrainedTensor> trainedTensors(const torch::jit::Module &module);

/// Walks back from `root` with `scale`, and frees the graph. One gradient per tensor, as it would
/// be added to its `grad`; undefined where the backward does not reach. Throws LibTorch's
/// exceptions.
std::vector<at::Tensor> gradientsFrom(const at::Tensor &root, const at::Tensor &scale,
                                      const std::vector<TrainedTensor> &tensors);

} // namespace pipec
