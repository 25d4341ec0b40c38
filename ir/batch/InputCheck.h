// Refuses a batch that the plan does not allow, before anything is sent.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Compares the arguments of one micro-batch of `samples` samples with the signature: the
/// micro-batch size if the model's constants fix it; dtype, number of dimensions and every fixed
/// size of a tensor. Errors: Usage naming argument, dimension and both values.
llvm::Error checkMicroBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            int64_t microBatch, int64_t samples);

} // namespace pipec
