// How the batch of a plain model is cut: found out by running it on an example.
#pragma once

#include "ir/MicroBatch.h"

namespace pipec {

/// What is known of the cut, and the model to run.
struct UnknownCut {
  int64_t microBatches = 1;
  std::vector<bool> batchDimGiven; // by argument
  /// Runs a fresh copy of the model on each of the inputs in turn; gives the last result.
  llvm::function_ref<llvm::Expected<c10::IValue>(std::vector<std::vector<c10::IValue>>)> run;
};

/// Completes the inputs' batch dimensions, the output tree and the merge rules of `signature` from
/// runs on a micro-batch of `inputs` (ir/MicroBatch.h). Errors: the model's own, with what the
/// argument or the batch has to do with it; Usage for more than one micro-batch of a batch that
/// must not be cut.
llvm::Error learnSignature(Signature &signature, const std::vector<c10::IValue> &inputs,
                           const UnknownCut &cut);

} // namespace pipec
