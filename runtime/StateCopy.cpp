#include "runtime/StateCopy.h"

#include "ir/values/Values.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/class_type.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

namespace pipec {

namespace {

bool liesInPlainMemory(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage();
}

/// The bytes [begin, end) of its storage that a tensor with elements uses.
std::pair<int64_t, int64_t> rangeOf(const at::Tensor &tensor) {
  const auto size = static_cast<int64_t>(tensor.element_size());
  int64_t last = tensor.storage_offset();
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset() * size, (last + 1) * size};
}

/// Bytes [begin, end) of a storage as a tensor.
at::Tensor bytesOf(const c10::Storage &storage, int64_t begin, int64_t end) {
  at::Tensor view = at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte));
  return view.set_(storage, begin, {end - begin}, {1});
}

} // namespace

StateCopy::StateCopy(llvm::ArrayRef<c10::IValue> values, bool writtenInPlace) {
  if (!writtenInPlace) {
    values_.assign(values.begin(), values.end());
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
}

at::Tensor StateCopy::keep(const at::Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  if (!liesInPlainMemory(tensor))
    return tensor.clone();
  shapes_.push_back({tensor, tensor.storage(), tensor.storage_offset(), tensor.sizes().vec(),
                     tensor.strides().vec()});
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
        shape.tensor.storage_offset() != shape.offset || shape.tensor.sizes() != shape.sizes ||
        shape.tensor.strides() != shape.strides)
      shape.tensor.set_(shape.storage, shape.offset, shape.sizes, shape.strides);
  return std::move(values_);
}

ModuleStateCopy::ModuleStateCopy(const c10::intrusive_ptr<c10::ivalue::Object> &module)
    : copy_((collect(module), values_), true) {
  values_.clear();
}

void ModuleStateCopy::collect(const c10::intrusive_ptr<c10::ivalue::Object> &module) {
  const auto type = module->type();
  for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const c10::IValue &value = module->getSlot(slot);
    if (value.isModule()) {
      collect(value.toObject());
    } else if (!type->is_parameter(slot)) {
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

namespace {

/// Copies of what some tensors use of their storages. A micro-batch is a view of the whole batch.
class SharingCopies {
public:
  void add(const at::Tensor &tensor) {
    if (!tensor.defined() || !isPlain(tensor) || tensor.numel() == 0)
      return;
    auto [begin, end] = rangeOf(tensor);
    begin -= begin % kAlignment; // operators may compute other bits at other alignments
    auto [known, isNew] = parts_.try_emplace(tensor.storage().unsafeGetStorageImpl());
    Part &part = known->second;
    part = isNew ? Part{tensor.storage(), begin, end, {}}
                 : Part{part.storage, std::min(part.begin, begin), std::max(part.end, end), {}};
  }

  at::Tensor copyOf(const at::Tensor &tensor) {
    if (!tensor.defined())
      return tensor;
    at::Tensor &result = tensors_[tensor.unsafeGetTensorImpl()];
    if (!result.defined()) {
      result = isPlain(tensor) && tensor.numel() > 0 ? onCopiedMemory(tensor) : tensor.clone();
      if (tensor.requires_grad())
        result.requires_grad_();
    }
    return result;
  }

private:
  static constexpr int64_t kAlignment = 64; // bytes; of memory from LibTorch
  struct Part {
    c10::Storage storage;
    int64_t begin = 0, end = 0;
    at::Tensor copy;
  };

  static bool isPlain(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_quantized();
  }

  at::Tensor onCopiedMemory(const at::Tensor &tensor) {
    Part &part = parts_.find(tensor.storage().unsafeGetStorageImpl())->second;
    if (!part.copy.defined())
      part.copy = bytesOf(part.storage, part.begin, part.end).clone();
    const int64_t skipped = part.begin / static_cast<int64_t>(tensor.element_size());
    return at::empty({0}, tensor.options().requires_grad(false))
        .set_(part.copy.storage(), tensor.storage_offset() - skipped, tensor.sizes(),
              tensor.strides());
  }

  std::unordered_map<const void *, at::Tensor> tensors_; // by identity; only looked up
  std::unordered_map<const void *, Part> parts_;         // by storage; only looked up
};

} // namespace

std::vector<c10::IValue> copiesThatShare(llvm::ArrayRef<c10::IValue> values) {
  c10::AutoGradMode noGrad(false);
  SharingCopies copies;
  for (const c10::IValue &value : values)
    forEachTensor(value, [&](const at::Tensor &tensor) { copies.add(tensor); });
  std::vector<c10::IValue> results;
  for (const c10::IValue &value : values)
    results.push_back(
        mapTensors(value, [&](const at::Tensor &tensor) { return copies.copyOf(tensor); }));
  return results;
}

} // namespace pipec
