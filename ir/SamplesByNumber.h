// Batches whose samples refer to each other by number, as the edges of a graph name its nodes.
#pragma once

#include "ir/MicroBatch.h"

namespace pipec {

/// Why the batch is not cut, where the model refuses every other size for the whole numbers that it
/// was given: with each of them taken modulo the size, it runs at every one of `sizes`. Empty
/// otherwise: constants of the model fix the size.
std::string samplesByNumber(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            llvm::ArrayRef<int64_t> sizes, LeafRunner run);

} // namespace pipec
