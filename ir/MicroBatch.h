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

/// The leaves of one result, in the signature's order. Errors: Other when the value does not have
/// the tree's shape.
llvm::Expected<std::vector<c10::IValue>> flattenOutputs(const Signature &signature,
                                                        const c10::IValue &result);

/// Calls a fresh copy of the model once per entry, in order, each with the inputs of one
/// micro-batch; gives the output leaves of the last call.
using LeafRunner = llvm::function_ref<llvm::Expected<std::vector<c10::IValue>>(
    std::vector<std::vector<c10::IValue>> calls)>;

/// Batch sizes that a model is tried at.
inline constexpr int64_t kTrialSizes[] = {2, 3, 5};

/// The three-size trial: runs the model with the samples of `inputs` repeated to batches of 2, 3
/// and 5 and fits a*B+b to every size. Sets in `signature`: batchDim of inputs where
/// `batchDimGiven` is false, batchSymbolic, batchSize, tensor specs of inputs and leaves, and the
/// merge rule of each leaf. A model that does not run at these sizes is batchSymbolic = false and
/// gets its rules from the example alone. Where no result follows the samples of the first tensor,
/// as of a table of anchors or of edges, what other inputs have along their first dimension is
/// tried. One run more, with other values and after a call, shows
/// what follows the samples or the model's state, and one with the later samples of the example
/// whether the batch can be cut at all: where it fails (offsets into another input begin at 0), or
/// the batch is a list with an entry per sample, no input is split, sizes that follow the batch are
/// dynamic, and `whole` gets why. Where it gives other numbers than those samples have in the whole
/// example, `mixes` gets what (see SamplesThatMix.h). Errors: Usage when the given batch dimensions
/// disagree; the error of `run` when the example itself fails.
/// `run` must not change the model's state (give it a fresh copy).
llvm::Error batchTrial(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                       const std::vector<bool> &batchDimGiven, LeafRunner run,
                       std::string *whole = nullptr, std::string *mixes = nullptr);

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
