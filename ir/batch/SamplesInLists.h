// Batches that are lists with an entry per sample, as detectors take their pictures.
#pragma once

#include "ir/batch/MicroBatch.h"
#include "ir/batch/ModelRunner.h"

namespace pipec {

/// Why the batch is not cut, where nothing but lists seems to follow it and entries are samples:
/// with an entry more the model gives more results, and none of them has the first dimension of the
/// entries however many there are. That dimension is no batch then, and may be of a fixed size.
/// Empty otherwise: as a model with a fixed batch may take any number of features. Two runs.
std::string samplesInLists(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                           const std::vector<bool> &batchDimGiven, ModelRunner run);

} // namespace pipec
