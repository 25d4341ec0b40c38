// A batch as its micro-batches, checked against the signature.
#pragma once

#include "ir/batch/InputCheck.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

struct BatchParts {
  std::vector<std::vector<c10::IValue>> inputs; // [micro-batch][argument]
  std::vector<int64_t> samples;                 // [micro-batch]
};

/// Cuts `inputs` into micro-batches and checks each. If no input has a batch dimension, the model
/// runs as one micro-batch of one sample. `memory`: lists of an earlier call, which are used again.
/// Errors: Usage (number of inputs, batch sizes that disagree, more micro-batches than samples,
/// refusals of checkMicroBatch).
llvm::Expected<BatchParts> splitBatch(const Signature &signature,
                                      const std::vector<c10::IValue> &inputs, int64_t microBatches,
                                      BatchParts memory = {}, SizesFrom from = SizesFrom::Compile);

/// Micro-batches that were cut before, checked as the parts of a batch. Errors: Usage naming the
/// micro-batch.
llvm::Expected<BatchParts>
checkMicroBatches(const Signature &signature,
                  const std::vector<std::vector<c10::IValue>> &microBatches,
                  SizesFrom from = SizesFrom::Compile);

/// Of a training, whose loss is not finite without samples. Errors: Usage for empty tensors if no
/// micro-batch has samples, or if all tensors are empty.
llvm::Error checkAnySamples(const BatchParts &parts);

} // namespace pipec
