// Messages about a model that accepts only one batch size.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// A help text: how to save a model so that it accepts other batch sizes.
std::string howToFreeBatch();
/// The same for an artifact that accepts only one.
std::string howToFreeBatch(const Signature &signature);

/// Whether the model runs with argument `index` resized along `dim`. False if it cannot be resized.
bool runsWithSize(llvm::ArrayRef<c10::IValue> inputs, size_t index, int64_t dim, int64_t size,
                  ModelRunner run);

/// What may fix the batch size of an artifact that accepts only one, for "... fix it": "the model's
/// constants", the `inputs` of that size that every micro-batch gets whole, and second dimensions
/// of that size, such as that of adj[nodes, nodes].
std::string whatFixesBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// Tries other batch sizes, and gives `error` the reason that they show. If the model runs with a
/// few samples more, the batch is too small. The size that constants fix is usually a number in the
/// error message for `inputs`: if the model runs with that size and not with one more, `error` gets
/// the size and the fix. If it also runs
/// with the batch as it is and another input, or another dimension, of the batch's size, the inputs
/// contradict each other: `error` gets both sizes. Otherwise `error` is returned unchanged. Nothing
/// runs unless `error` is a failure of Usage. `batchDims` are the
/// given dimensions, empty if pipec has to find the dimension. `whole`: the user's inputs, if
/// `inputs` are a micro-batch of them; sizes that contradict each other are then those of the user.
llvm::Error explainFixedBatch(llvm::Error error, Signature signature,
                              llvm::ArrayRef<c10::IValue> inputs,
                              const std::vector<bool> &batchDimGiven, ModelRunner run,
                              llvm::ArrayRef<c10::IValue> whole = {});

/// Of these reasons only that the batch is too small, for a model whose `signature` says how
/// `inputs` are cut. `error` may come from something else than the forward: the reason is given
/// only if `run` refuses `inputs`, too.
llvm::Error explainFewSamples(llvm::Error error, const Signature &signature,
                              llvm::ArrayRef<c10::IValue> inputs, ModelRunner run);

} // namespace pipec
