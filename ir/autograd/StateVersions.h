// State that later micro-batches write while the backward of earlier ones still needs it.
#pragma once

#include "ir/artifact/StageModule.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <utility>
#include <vector>

namespace pipec {

/// The bytes [begin, end) of its storage that a tensor with elements uses.
std::pair<int64_t, int64_t> rangeOf(const at::Tensor &tensor);
/// Bytes [begin, end) of a storage as a tensor.
at::Tensor bytesOf(const c10::Storage &storage, int64_t begin, int64_t end);

/// Copies that share memory with one another as the values do: a tensor that comes twice is one
/// tensor, views of one memory are views of its copy. Only the part of a memory is copied that they
/// use. Strides, alignment and requires_grad stay. Throws LibTorch's exceptions.
std::vector<c10::IValue> copiesThatShare(llvm::ArrayRef<c10::IValue> values);

/// Makes such copies, and keeps the memory of its lists from call to call.
class SharingCopies {
public:
  /// Replaces each value by its copy.
  void replace(llvm::MutableArrayRef<c10::IValue> values);

private:
  static constexpr int64_t kAlignment = 64; // bytes; of memory from LibTorch
  /// What the values use of a storage. A micro-batch is a view of the whole batch.
  struct Part {
    c10::Storage storage;
    int64_t begin = 0, end = 0;
    at::Tensor copy;
  };

  void add(const at::Tensor &tensor);
  at::Tensor copyOf(const at::Tensor &tensor);
  at::Tensor onCopiedMemory(const at::Tensor &tensor);

  llvm::DenseMap<const void *, at::Tensor> tensors_; // by identity; only looked up
  llvm::DenseMap<const void *, Part> parts_;         // by storage; only looked up
  std::vector<c10::IValue> kept_;
};

/// The attributes of a stage that its forward writes, ascending.
std::vector<size_t> writtenAttributes(const StagePlan &plan);

/// Gives the state of a stage memory of its own before a forward. Keeps the memory of its lists.
class StateRenewal {
public:
  /// Of the state in attributes `written`: the next forward writes there, and tapes keep what they
  /// saw. A tensor that is trained stays the one that the optimizer has. Where others than these
  /// attributes see the memory, nothing changes: autograd refuses a backward that needs its old
  /// values. Throws LibTorch's exceptions.
  void renew(StageModule &module, const StagePlan &plan, llvm::ArrayRef<size_t> written);

private:
  bool isStateApart(const StageModule &module, const StagePlan &plan,
                    llvm::ArrayRef<size_t> written);

  // Empty between calls.
  SharingCopies sharing_;
  llvm::DenseSet<const void *> memory_; // only looked up
  std::vector<c10::IValue> copies_;
};

} // namespace pipec
