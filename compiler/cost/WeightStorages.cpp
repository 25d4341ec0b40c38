#include "compiler/cost/WeightStorages.h"

#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/values/MapTensors.h"

#include <map>

namespace pipec {

namespace {

struct WeightTensor {
  at::Tensor tensor;
  std::string name;
  bool trained;
};

std::vector<WeightTensor> tensorsIn(const Attribute &attribute) {
  if (attribute.value.isTensor())
    return {{attribute.value.toTensor(), attribute.name, attribute.requiresGrad}};
  std::vector<WeightTensor> tensors;
  forEachTensor(attribute.value, [&](const at::Tensor &tensor) {
    tensors.push_back({tensor, attribute.name + "." + std::to_string(tensors.size()),
                       tensor.defined() && tensor.requires_grad()});
  });
  return tensors;
}

/// Memory of several tensors: the range that they span, or their elements if these have gaps.
struct Covered {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  std::map<TensorKey, int64_t> elements; // bytes of each different tensor

  void add(const at::Tensor &tensor) {
    if (!elements.try_emplace(keyOf(tensor), byteCount(tensor)).second)
      return;
    const auto [first, last] = extentOf(tensor);
    if (first == last)
      return;
    begin = std::min(begin, first);
    end = std::max(end, last);
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto &[key, bytes] : elements)
      sum += bytes;
    return begin < end ? std::min(sum, static_cast<int64_t>(end - begin)) : sum;
  }
};

} // namespace

bool isTrained(const Attribute &attribute) {
  for (const WeightTensor &part : tensorsIn(attribute))
    if (part.trained)
      return true;
  return false;
}

c10::IValue withLeaves(const Attribute &attribute, const c10::IValue &value) {
  return mapTensors(value, [&](const at::Tensor &tensor) {
    const bool trained = tensor.defined() && (attribute.value.isTensor() ? attribute.requiresGrad
                                                                         : tensor.requires_grad());
    return trained ? tensor.detach().requires_grad_() : tensor;
  });
}

std::vector<WeightStorage> weightStorages(const Model &model, const OperatorGraph &graph) {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<WeightTensor>> parts;
  std::vector<size_t> begins; // of each attribute in `tensors`
  for (const Attribute &attribute : model.attributes) {
    begins.push_back(tensors.size());
    for (const WeightTensor &part : parts.emplace_back(tensorsIn(attribute)))
      tensors.push_back(part.tensor);
  }
  const std::vector<int64_t> storages = storageIds(tensors);
  std::map<int64_t, WeightStorage> found;
  std::map<int64_t, Covered> memory;
  for (auto [attribute, reader] : graph.weights)
    for (size_t i = 0; i < parts[attribute].size(); ++i) {
      const WeightTensor &part = parts[attribute][i];
      if (!part.tensor.defined())
        continue;
      const int64_t storage = storages[begins[attribute] + i];
      WeightStorage &weight = found[storage];
      if (weight.name.empty())
        weight.name = part.name;
      weight.trained |= part.trained;
      weight.readers.insert(reader);
      memory[storage].add(part.tensor);
    }
  std::vector<WeightStorage> all;
  for (auto &[storage, weight] : found) {
    weight.bytes = memory[storage].bytes();
    all.push_back(std::move(weight));
  }
  return all;
}

} // namespace pipec
