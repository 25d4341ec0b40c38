// Batches whose samples refer to each other by index, as the edges of a graph name its nodes.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Returns the reason why the batch is not cut, if the model refuses other batch sizes only because
/// the whole numbers in its inputs are indices of samples. The test: with each of these numbers
/// taken modulo the size, the model runs at every one of `sizes`, also if only the first input that
/// `signature` cuts is the batch. The reason names the inputs with such numbers. Empty if constants
/// of the model fix the size. The model must run with `inputs` themselves.
std::string samplesByNumber(Signature signature, llvm::ArrayRef<c10::IValue> inputs,
                            llvm::ArrayRef<int64_t> sizes, ModelRunner run);

} // namespace pipec
