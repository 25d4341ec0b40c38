// Cutting arguments into micro-batches and merging outputs again.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Samples in the batch: the size along the batch dimension that all split inputs agree on.
/// Errors: Usage when inputs disagree, naming both and both sizes, or when no input is split.
llvm::Expected<int64_t> batchSize(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// inputs[k] for each micro-batch, cut as torch.tensor_split cuts (sizes differ by one at most,
/// larger first); tensors are views unless the model writes into that input. Inputs without a batch
/// dimension are given whole to each. Errors: Usage when microBatches < 1 or more than samples.
llvm::Expected<std::vector<std::vector<c10::IValue>>>
splitInputs(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, int64_t microBatches);

/// leaves[k][l]: value of output leaf l of micro-batch k; samples[k]: its samples, the weights of a
/// mean. Builds the model's result tree (named tuples become tuples). A single micro-batch gives
/// the model's own result, also for leaves with the rule List. Errors: Other when the
/// micro-batches' values do not fit together, naming the leaf.
llvm::Expected<c10::IValue> mergeOutputs(const Signature &signature,
                                         llvm::ArrayRef<std::vector<c10::IValue>> leaves,
                                         llvm::ArrayRef<int64_t> samples);

/// Whether tensors can be concatenated along `dim`: all other sizes agree. True for other values.
bool fitsConcat(llvm::ArrayRef<c10::IValue> parts, int64_t dim);

/// The leaves of one result, in the signature's order. Errors: Other when the value does not have
/// the tree's shape.
llvm::Expected<std::vector<c10::IValue>> flattenOutputs(const Signature &signature,
                                                        const c10::IValue &result);

/// Values whose tensors have memory of their own, with the very strides and requires_grad: what a
/// model writes into them nobody else sees, and its operators compute the same bits. Only elements
/// that share memory (an expanded tensor) lose their strides.
std::vector<c10::IValue> ownCopies(llvm::ArrayRef<c10::IValue> values);

/// Makes the value of one batch of `size` samples from an example by repeating or dropping samples
/// along the batch dimension; those left keep their order.
c10::IValue resizeBatch(const c10::IValue &value, std::optional<int64_t> batchDim, int64_t size);

/// dtype, sizes, strides of a tensor as a spec with constant dims.
TensorSpec specOf(const at::Tensor &tensor);
/// Fits sizes and strides as a*B+b (a, b >= 0) over the specs seen at the batch sizes; a dimension
/// that fits no line is dynamic. `bytes` are those of the first entry; different dtypes or ranks
/// give an unknown spec.
TensorSpec fitSpec(llvm::ArrayRef<std::pair<int64_t, TensorSpec>> seen);

} // namespace pipec
