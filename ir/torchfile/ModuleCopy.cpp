#include "ir/torchfile/ModuleCopy.h"

#include "ir/TorchError.h"
#include "ir/ViewLike.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/torchfile/SharedCode.h"
#include "ir/torchfile/TorchArchive.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <unordered_map>

namespace pipec {

namespace {

/// Its memory, sizes and flags are all that there is to copy.
bool isPlain(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() && tensor.is_cpu() &&
         !tensor.is_quantized() && !tensor.is_nested() && !tensor.has_names() && tensor.is_leaf();
}

bool isCopied(const c10::IValue &value) {
  if (value.isTensor())
    return !value.toTensor().defined() || isPlain(value.toTensor());
  return value.isTuple() || value.isList() || value.isGenericDict() || value.isObject();
}

using Mappings = std::unordered_map<const MappedFile *, std::shared_ptr<MappedFile>>;

class Copies {
public:
  /// `mappings`: another mapping of each file in which the values have memory.
  explicit Copies(Mappings mappings) : mappings_(std::move(mappings)) {}

  c10::IValue of(const c10::IValue &value) {
    PIPEC_ASSERT(isCopied(value) || neverChanges(value), "a module that can be copied");
    if (!isCopied(value) || (value.isTensor() && !value.toTensor().defined()))
      return value;
    if (const auto known = copies_.find(value); known != copies_.end())
      return known->second;
    if (value.isTensor())
      return copies_[value] = tensor(value.toTensor());
    if (value.isTuple())
      return copies_[value] = tuple(value);
    if (value.isList())
      return list(value);
    if (value.isGenericDict())
      return dict(value);
    return object(value);
  }

private:
  /// As a loaded one: its memory cannot become larger.
  static c10::Storage storageOf(size_t bytes, at::DataPtr data) {
    return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                        /*allocator=*/nullptr, /*resizable=*/false);
  }

  c10::Storage &storage(const c10::Storage &original) {
    c10::Storage &copy = storages_[original.unsafeGetStorageImpl()];
    if (copy)
      return copy;
    const size_t bytes = original.nbytes();
    const auto *data = static_cast<const char *>(original.data());
    if (const std::shared_ptr<MappedFile> file = mappingOf(original)) {
      copy = storageOf(bytes, viewOfMapping(mappings_.at(file.get()), data - file->data()));
    } else {
      at::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
      if (bytes > 0)
        std::memcpy(memory.get(), data, bytes);
      copy = storageOf(bytes, std::move(memory));
    }
    return copy;
  }

  at::Tensor tensor(const at::Tensor &original) {
    return viewLike(original, storage(original.storage()), original.storage_offset())
        .set_requires_grad(original.requires_grad());
  }

  c10::IValue tuple(const c10::IValue &original) {
    const c10::ivalue::Tuple &old = original.toTupleRef();
    std::vector<c10::IValue> elements;
    for (const c10::IValue &element : old.elements())
      elements.push_back(of(element));
    if (const auto type = old.type(); type->name())
      return c10::ivalue::Tuple::createNamed(std::move(elements), type);
    return c10::ivalue::Tuple::create(std::move(elements));
  }

  // What follows may hold itself, so a copy is known before its parts are.

  c10::IValue list(const c10::IValue &original) {
    c10::impl::GenericList copy(original.toList().elementType());
    copies_[original] = copy;
    copy.reserve(original.toListRef().size());
    for (const c10::IValue &element : original.toListRef())
      copy.push_back(of(element));
    return copy;
  }

  c10::IValue dict(const c10::IValue &original) {
    const c10::impl::GenericDict old = original.toGenericDict();
    c10::impl::GenericDict copy(old.keyType(), old.valueType());
    copies_[original] = copy;
    for (const auto &entry : old)
      copy.insert(of(entry.key()), of(entry.value()));
    return copy;
  }

  c10::IValue object(const c10::IValue &original) {
    const c10::intrusive_ptr<c10::ivalue::Object> old = original.toObject();
    const auto copy = c10::ivalue::Object::create(
        c10::StrongTypePtr(old->compilation_unit(), old->type()), old->slots().size());
    copies_[original] = copy;
    for (size_t slot = 0; slot < old->slots().size(); ++slot)
      copy->setSlot(slot, of(old->getSlot(slot)));
    return copy;
  }

  Mappings mappings_;
  c10::IValue::HashIdentityIValueMap copies_;
  std::unordered_map<const c10::StorageImpl *, c10::Storage> storages_;
};

} // namespace

bool canBeCopied(const torch::jit::Module &module) {
  bool can = canShareCode(module);
  c10::IValue(module._ivalue()).visit([&](const c10::IValue &part) {
    can = can && (isCopied(part) || neverChanges(part));
    return !can;
  });
  return can;
}

llvm::Expected<torch::jit::Module> copyOf(const torch::jit::Module &module) {
  const c10::IValue all(module._ivalue());
  Mappings files; // with themselves at first
  all.visit([&](const c10::IValue &part) {
    if (part.isTensor() && part.toTensor().defined())
      if (std::shared_ptr<MappedFile> file = mappingOf(part.toTensor().storage()))
        files.try_emplace(file.get(), std::move(file));
    return false;
  });
  for (auto &[original, file] : files)
    file = TRY(original->again());
  return guardTorch(ExitCode::Internal, "copying the model", [&] {
    const at::NoGradGuard noGrad;
    return torch::jit::Module(Copies(std::move(files)).of(all).toObject());
  });
}

} // namespace pipec
