#include "ir/autograd/StateVersions.h"

#include "ir/autograd/GradLeaf.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <set>
#include <unordered_map>

namespace pipec {

namespace {

bool isStateApart(const StageModule &module, const StagePlan &plan,
                  llvm::ArrayRef<size_t> written) {
  std::set<const void *> memory; // only looked up
  for (size_t i : written)
    forEachTensor(module.attribute(i), [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage())
        memory.insert(tensor.storage().unsafeGetStorageImpl());
    });
  bool apart = true;
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    forEachTensor(module.attribute(i), [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage() &&
          memory.count(tensor.storage().unsafeGetStorageImpl()))
        apart = apart && llvm::is_contained(written, i);
    });
  return apart;
}

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

void renewState(StageModule &module, const StagePlan &plan, llvm::ArrayRef<size_t> written) {
  if (!isStateApart(module, plan, written))
    return;
  std::vector<c10::IValue> now;
  for (size_t i : written)
    now.push_back(module.attribute(i));
  std::vector<c10::IValue> copies = copiesThatShare(now);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].isTensor() && mayHaveGradient(now[i].toTensor()))
      moveTensorTo(copies[i].toTensor(), now[i].toTensor());
    else
      module.setAttribute(written[i], std::move(copies[i]));
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
