#include "compiler/emit/StageWeights.h"

#include "ir/TensorKey.h"
#include "ir/ViewLike.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace pipec {

namespace {

bool isPlain(const c10::IValue &value) {
  if (!value.isTensor() || !value.toTensor().defined())
    return false;
  const at::Tensor &tensor = value.toTensor();
  return tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_quantized() &&
         tensor.device().is_cpu() && tensor.numel() > 0;
}

/// A storage over [begin, end) of memory that `owner` keeps alive.
c10::Storage storageOver(uintptr_t begin, uintptr_t end, const at::Tensor &owner) {
  auto *keep = new at::Tensor(owner);
  c10::DataPtr pointer(
      reinterpret_cast<void *>(begin), keep,
      [](void *context) { delete static_cast<at::Tensor *>(context); }, at::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t(), end - begin, std::move(pointer), nullptr,
                      false);
}

at::Tensor viewOf(const at::Tensor &tensor, const c10::Storage &storage, uintptr_t begin) {
  auto offset = static_cast<int64_t>(
      (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) - begin) / tensor.element_size());
  return viewLike(tensor, storage, offset).set_requires_grad(tensor.requires_grad());
}

} // namespace

std::vector<c10::IValue> stageWeights(const StagedModel &model, size_t stage) {
  llvm::StringMap<size_t> indexOf;
  for (size_t i = 0; i < model.attributes.size(); ++i)
    indexOf[model.attributes[i].name] = i;

  struct Group {
    uintptr_t begin = UINTPTR_MAX, end = 0;
    c10::Storage storage;
  };
  std::map<int64_t, Group> groups;
  const std::vector<StageAttribute> &entries = model.stages[stage].plan.attributes;
  auto attributeOf = [&](const StageAttribute &entry) -> const Attribute & {
    return model.attributes[indexOf.lookup(entry.name)];
  };
  for (const StageAttribute &entry : entries) {
    const Attribute &attribute = attributeOf(entry);
    if (entry.channel || !isPlain(attribute.value))
      continue;
    auto [begin, end] = extentOf(attribute.value.toTensor());
    Group &group = groups[attribute.storage];
    group.begin = std::min(group.begin, begin);
    group.end = std::max(group.end, end);
  }
  std::map<TensorKey, c10::IValue> made; // the very same tensor stays one object
  std::vector<c10::IValue> values;
  for (const StageAttribute &entry : entries) {
    const Attribute &attribute = attributeOf(entry);
    if (entry.channel || !isPlain(attribute.value)) {
      values.push_back(attribute.value);
      continue;
    }
    const at::Tensor &tensor = attribute.value.toTensor();
    Group &group = groups[attribute.storage];
    if (!group.storage)
      group.storage = storageOver(group.begin, group.end, tensor);
    auto [it, inserted] = made.try_emplace(keyOf(tensor));
    if (inserted)
      it->second = viewOf(tensor, group.storage, group.begin);
    values.push_back(it->second);
  }
  return values;
}

} // namespace pipec
