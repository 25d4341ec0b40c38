// Batches that are lists with an entry per sample, as detectors take their pictures.
#pragma once

#include "ir/MicroBatch.h"

namespace pipec {

/// Why the batch is not cut, where nothing but lists seems to follow it and the model takes lists
/// with an entry more; empty otherwise. Such a model may have a fixed size along the first
/// dimension of each entry, which is no batch then. One run.
std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, LeafRunner run);

} // namespace pipec
