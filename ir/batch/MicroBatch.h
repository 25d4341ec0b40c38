// Cutting arguments into micro-batches.
#pragma once

#include "ir/batch/ArgumentCut.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Number of samples in the batch: the size along the batch dimension that all split inputs agree
/// on. Errors: Usage if inputs disagree, naming both and both sizes, or if no input is split.
llvm::Expected<int64_t> batchSize(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);
/// The same, or `otherwise` instead of an error.
int64_t batchSizeOr(int64_t otherwise, const Signature &signature,
                    llvm::ArrayRef<c10::IValue> inputs);

/// Returns inputs[k] for each micro-batch k, cut as torch.tensor_split cuts (sizes differ by at
/// most one, larger first). Tensors are views unless the model writes into that input. Every
/// micro-batch gets inputs without a batch dimension whole. `memory`: lists of an earlier call,
/// which are used again. Errors: Usage if microBatches < 1 or more than samples.
llvm::Expected<std::vector<std::vector<c10::IValue>>>
splitInputs(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, int64_t microBatches,
            std::vector<std::vector<c10::IValue>> memory = {});

/// Usage: more than one micro-batch of a batch without samples.
llvm::Error refuseEmptyBatch(int64_t microBatches);

/// Copies whose tensors have memory of their own and the same strides and requires_grad. What a
/// model writes into them is visible nowhere else, and its operators compute the same bits. Only
/// tensors whose elements share memory (expanded ones) lose their strides.
std::vector<c10::IValue> ownCopies(llvm::ArrayRef<c10::IValue> values);

/// Whether the tensors of both are aligned alike in memory. Operators may compute other bits from
/// equal elements that are not.
bool areAlignedAlike(llvm::ArrayRef<c10::IValue> a, llvm::ArrayRef<c10::IValue> b);

/// Makes the value for a batch of `size` samples from an example, by repeating or dropping samples
/// along the batch dimension. The remaining samples keep their order.
c10::IValue resizeBatch(const c10::IValue &value, const ArgumentCut &cut, int64_t size);

} // namespace pipec
