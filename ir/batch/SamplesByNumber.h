// Batches whose samples refer to each other by number, as the edges of a graph name its nodes.
#pragma once

#include "ir/batch/MicroBatch.h"
#include "ir/batch/ModelRunner.h"

namespace pipec {

/// Why the batch is not cut, where the model refuses every other size for the whole numbers that it
/// was given: with each of them taken modulo the size, it runs at every one of `sizes`, also if
/// only the first of the inputs that `signature` cuts is the batch. Names those that have to be.
/// Empty otherwise: constants of the model fix the size. The model must run with the `inputs`
/// themselves.
std::string samplesByNumber(Signature signature, llvm::ArrayRef<c10::IValue> inputs,
                            llvm::ArrayRef<int64_t> sizes, ModelRunner run);

} // namespace pipec
