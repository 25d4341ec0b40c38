#include "ir/autograd/ModelGradients.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>

#include <set>
#include <unordered_map>

namespace pipec {

namespace ag = torch::autograd;

bool hasGradientEdge(const at::Tensor &tensor) {
  return tensor.defined() && tensor.requires_grad() &&
         ag::impl::gradient_edge(tensor).function != nullptr;
}

std::vector<TrainedTensor> trainedTensors(const torch::jit::Module &module) {
  std::set<std::string> parameters;
  for (const auto &[name, value] : module.named_parameters(/*recurse=*/true))
    parameters.insert(name);
  std::vector<std::pair<size_t, TrainedTensor>> placed; // by the place of the first name
  std::unordered_map<const void *, size_t> numbers;     // only looked up
  size_t place = 0;
  for (const auto &[name, value] : module.named_attributes(/*recurse=*/true)) {
    if (!value.isTensor() || !hasGradientEdge(value.toTensor()) || !value.toTensor().is_leaf())
      continue;
    ++place;
    const auto [known, isNew] =
        numbers.emplace(value.toTensor().unsafeGetTensorImpl(), placed.size());
    if (isNew) {
      placed.push_back({place, {{name}, value.toTensor()}});
      continue;
    }
    auto &[first, tensor] = placed[known->second];
    if (parameters.count(name) && !parameters.count(tensor.names.front())) {
      tensor.names.insert(tensor.names.begin(), name);
      first = place;
    } else {
      tensor.names.push_back(name);
    }
  }
  llvm::sort(placed, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<TrainedTensor> tensors;
  for (auto &[first, tensor] : placed)
    tensors.push_back(std::move(tensor));
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
