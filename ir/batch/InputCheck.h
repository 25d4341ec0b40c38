// Refuses a batch that the plan does not allow, before anything is sent.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// What shows the sizes of a signature, and so what helps if others come.
enum class SizesFrom {
  Compile,   // the example inputs of an artifact
  FirstBatch // of a model that runs without a compile
};

/// Compares the arguments of one micro-batch of `samples` samples with the signature: the
/// micro-batch size if the model's constants fix it; dtype, number of dimensions and every fixed
/// size of a tensor. Errors: Usage naming argument, dimension and both values.
llvm::Error checkMicroBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            int64_t microBatch, int64_t samples,
                            SizesFrom from = SizesFrom::Compile);

} // namespace pipec
