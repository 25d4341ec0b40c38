#include "runtime/StateCopy.h"

#include "ir/autograd/StateVersions.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/class_type.h>
#include <ATen/core/grad_mode.h>

namespace pipec {

namespace {

bool liesInPlainMemory(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage();
}

} // namespace

void StateCopy::take(llvm::ArrayRef<c10::IValue> values, bool writtenInPlace) {
  forget(); // of one that threw
  if (!writtenInPlace) {
    values_.assign(values.begin(), values.end());
    isTaken_ = true;
    return;
  }
  at::NoGradGuard noGrad;
  for (const c10::IValue &value : values)
    values_.push_back(value.isObject() ? value.deepcopy()
                                       : mapTensors(value, [&](const at::Tensor &tensor) {
                                           return keep(tensor);
                                         }));
  for (Bytes &part : bytes_)
    part.copy = bytesOf(part.storage, part.begin, part.end).clone();
  isTaken_ = true;
}

void StateCopy::forget() {
  values_.clear();
  shapes_.clear();
  bytes_.clear();
  isTaken_ = false;
}

at::Tensor StateCopy::keep(const at::Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  if (!liesInPlainMemory(tensor))
    return tensor.clone();
  shapes_.push_back({tensor, tensor.storage(), tensor.storage_offset(),
                     at::DimVector(tensor.sizes()), at::DimVector(tensor.strides())});
  if (tensor.numel() == 0)
    return tensor;
  const auto [begin, end] = rangeOf(tensor);
  auto known = llvm::find_if(bytes_, [&](const Bytes &part) {
    return part.storage.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl();
  });
  if (known == bytes_.end())
    bytes_.push_back({tensor.storage(), begin, end, {}});
  else
    *known = Bytes{known->storage, std::min(known->begin, begin), std::max(known->end, end), {}};
  return tensor;
}

std::vector<c10::IValue> StateCopy::restore() {
  at::NoGradGuard noGrad;
  for (const Bytes &part : bytes_)
    bytesOf(part.storage, part.begin, part.end).copy_(part.copy);
  for (Shape &shape : shapes_)
    if (!shape.tensor.storage().is_alias_of(shape.storage) ||
        shape.tensor.storage_offset() != shape.offset ||
        shape.tensor.sizes() != at::IntArrayRef(shape.sizes) ||
        shape.tensor.strides() != at::IntArrayRef(shape.strides))
      shape.tensor.set_(shape.storage, shape.offset, shape.sizes, shape.strides);
  return std::move(values_);
}

ModuleStateCopy::ModuleStateCopy(const c10::intrusive_ptr<c10::ivalue::Object> &module,
                                 bool parameters)
    : copy_((collect(module, parameters), values_), true) {
  values_.clear();
}

void ModuleStateCopy::collect(const c10::intrusive_ptr<c10::ivalue::Object> &module,
                              bool parameters) {
  const auto type = module->type();
  for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const c10::IValue &value = module->getSlot(slot);
    if (value.isModule()) {
      collect(value.toObject(), parameters);
    } else if (parameters || !type->is_parameter(slot)) {
      slots_.emplace_back(module, slot);
      values_.push_back(value);
    }
  }
}

void ModuleStateCopy::restore() {
  std::vector<c10::IValue> values = copy_.restore();
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].first->setSlot(slots_[i].second, std::move(values[i]));
}

} // namespace pipec
