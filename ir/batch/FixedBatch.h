// What to say of a model that takes only one size of its batch.
#pragma once

#include "ir/batch/MicroBatch.h"
#include "ir/batch/ModelRunner.h"

namespace pipec {

/// How to save a model so that it takes other sizes of the batch: a help text.
std::string howToFreeBatch();

/// The size that the model's constants fix is most often a number in what it said about `inputs`:
/// `error` gets that size and the fix when the model runs with it, and stays as it is otherwise.
/// Nothing runs unless `error` is a failure of Usage. `batchDims` are those given, none where the
/// dimension is ours to find.
llvm::Error explainFixedBatch(llvm::Error error, Signature signature,
                              llvm::ArrayRef<c10::IValue> inputs,
                              const std::vector<bool> &batchDimGiven, ModelRunner run);

} // namespace pipec
