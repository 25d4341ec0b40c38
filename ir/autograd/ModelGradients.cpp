#include "ir/autograd/ModelGradients.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>

#include <unordered_map>

namespace pipec {

namespace ag = torch::autograd;

bool hasGradientEdge(const at::Tensor &tensor) {
  return tensor.defined() && tensor.requires_grad() &&
         ag::impl::gradient_edge(tensor).function != nullptr;
}

std::vector<TrainedTensor> trainedTensors(const torch::jit::Module &module) {
  std::vector<TrainedTensor> tensors;
  std::unordered_map<const void *, size_t> numbers; // only looked up
  for (const auto &[name, value] : module.named_attributes(/*recurse=*/true)) {
    if (!value.isTensor() || !hasGradientEdge(value.toTensor()) || !value.toTensor().is_leaf())
      continue;
    const auto [known, isNew] =
        numbers.emplace(value.toTensor().unsafeGetTensorImpl(), tensors.size());
    if (isNew)
      tensors.push_back({{}, value.toTensor()});
    tensors[known->second].names.push_back(name);
  }
  return tensors;
}

std::vector<at::Tensor> gradientsFrom(const at::Tensor &root, const at::Tensor &scale,
                                      const std::vector<TrainedTensor> &tensors) {
  if (tensors.empty() || !hasGradientEdge(root))
    return std::vector<at::Tensor>(tensors.size());
  ag::edge_list wanted;
  for (const TrainedTensor &each : tensors)
    wanted.push_back(ag::impl::gradient_edge(each.tensor));
  return ag::Engine::get_default_engine().execute({ag::impl::gradient_edge(root)}, {scale},
                                                  /*keep_graph=*/false, /*create_graph=*/false,
                                                  /*accumulate_grad=*/false, wanted);
}

} // namespace pipec
