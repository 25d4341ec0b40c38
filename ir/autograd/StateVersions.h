// State that later micro-batches write while the backward of earlier ones still needs it.
#pragma once

#include "ir/artifact/StageModule.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <utility>

namespace pipec {

/// The bytes [begin, end) of its storage that a tensor with elements uses.
std::pair<int64_t, int64_t> rangeOf(const at::Tensor &tensor);
/// Bytes [begin, end) of a storage as a tensor.
at::Tensor bytesOf(const c10::Storage &storage, int64_t begin, int64_t end);

/// Copies that share memory with one another as the values do: a tensor that comes twice is one
/// tensor, views of one memory are views of its copy. Only the part of a memory is copied that they
/// use. Strides, alignment and requires_grad stay. Throws LibTorch's exceptions.
std::vector<c10::IValue> copiesThatShare(llvm::ArrayRef<c10::IValue> values);

/// The attributes of a stage that its forward writes, ascending.
std::vector<size_t> writtenAttributes(const StagePlan &plan);

/// Gives the state in attributes `written` memory of its own, so that the next forward writes there
/// and tapes keep what they saw. A tensor that is trained stays the one that the optimizer has.
/// Where others than these attributes see the memory, nothing changes: autograd refuses a backward
/// that needs its old values. Throws LibTorch's exceptions.
void renewState(StageModule &module, const StagePlan &plan, llvm::ArrayRef<size_t> written);

} // namespace pipec
