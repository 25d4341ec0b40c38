#include "ir/autograd/StateVersions.h"

#include "ir/ViewLike.h"
#include "ir/autograd/GradLeaf.h"
#include "ir/support/Llvm.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace pipec {

namespace {

/// Tapes keep the tensor's old memory with the old count of writes.
void moveTensorTo(const at::Tensor &memory, const at::Tensor &tensor) {
  tensor.set_data(memory.detach());
  tensor.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(0));
}

} // namespace

std::vector<size_t> writtenAttributes(const StagePlan &plan) {
  std::vector<size_t> written;
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    if (llvm::is_contained(plan.effects.stateWrites, plan.attributes[i].name))
      written.push_back(i);
  return written;
}

bool StateRenewal::isStateApart(const StageModule &module, const StagePlan &plan,
                                llvm::ArrayRef<size_t> written) {
  for (size_t i : written)
    forEachTensor(module.attribute(i), [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage())
        memory_.insert(tensor.storage().unsafeGetStorageImpl());
    });
  bool apart = true;
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    forEachTensor(module.attribute(i), [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage() &&
          memory_.count(tensor.storage().unsafeGetStorageImpl()))
        apart = apart && llvm::is_contained(written, i);
    });
  return apart;
}

void StateRenewal::renew(StageModule &module, const StagePlan &plan,
                         llvm::ArrayRef<size_t> written) {
  const auto ended = atScopeEnd([&] {
    memory_.clear();
    copies_.clear();
  });
  if (!isStateApart(module, plan, written))
    return;
  for (size_t i : written)
    copies_.push_back(module.attribute(i));
  sharing_.replace(copies_);
  for (size_t k = 0; k < written.size(); ++k) {
    const c10::IValue &now = module.attribute(written[k]);
    if (now.isTensor() && mayHaveGradient(now.toTensor()))
      moveTensorTo(copies_[k].toTensor(), now.toTensor());
    else
      module.setAttribute(written[k], std::move(copies_[k]));
  }
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

static bool isPlainTensor(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized();
}

void SharingCopies::add(const at::Tensor &tensor) {
  if (!tensor.defined() || !isPlainTensor(tensor) || tensor.numel() == 0)
    return;
  auto [begin, end] = rangeOf(tensor);
  begin -= begin % kAlignment; // operators may compute other bits at other alignments
  auto [known, isNew] = parts_.try_emplace(tensor.storage().unsafeGetStorageImpl());
  Part &part = known->second;
  part = isNew ? Part{tensor.storage(), begin, end, {}}
               : Part{part.storage, std::min(part.begin, begin), std::max(part.end, end), {}};
}

at::Tensor SharingCopies::copyOf(const at::Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  at::Tensor &result = tensors_[tensor.unsafeGetTensorImpl()];
  if (!result.defined()) {
    result = isPlainTensor(tensor) && tensor.numel() > 0 ? onCopiedMemory(tensor) : tensor.clone();
    if (tensor.requires_grad())
      result.requires_grad_();
  }
  return result;
}

at::Tensor SharingCopies::onCopiedMemory(const at::Tensor &tensor) {
  Part &part = parts_.find(tensor.storage().unsafeGetStorageImpl())->second;
  if (!part.copy.defined())
    part.copy = bytesOf(part.storage, part.begin, part.end).clone();
  const int64_t skipped = part.begin / static_cast<int64_t>(tensor.element_size());
  return viewLike(tensor, part.copy.storage(), tensor.storage_offset() - skipped);
}

void SharingCopies::replace(llvm::MutableArrayRef<c10::IValue> values) {
  c10::AutoGradMode noGrad(false);
  const auto ended = atScopeEnd([&] {
    tensors_.clear();
    parts_.clear();
    kept_.clear();
  });
  for (const c10::IValue &value : values)
    forEachTensor(value, [&](const at::Tensor &tensor) { add(tensor); });
  // All values stay until the last one is copied: another tensor could get the address of one.
  kept_.assign(values.begin(), values.end());
  for (c10::IValue &value : values)
    value = mapTensors(value, [&](const at::Tensor &tensor) { return copyOf(tensor); });
}

std::vector<c10::IValue> copiesThatShare(llvm::ArrayRef<c10::IValue> values) {
  std::vector<c10::IValue> copies = values.vec();
  SharingCopies().replace(copies);
  return copies;
}

} // namespace pipec
