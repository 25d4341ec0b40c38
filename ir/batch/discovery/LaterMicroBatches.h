// Checks what the first micro-batch of a run showed, as the example of its discovery, on the later
// ones.
#pragma once

#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// Compares the merged results of this run's micro-batches with those of the whole batch, and adds
/// the differences to `found`. They may have values that the example lacks, such as labels that do
/// not count. Of a batch of more than 64 samples (4,096 if it exceeds a number in the model that 64
/// do not exceed) the halves of so many are compared. Returns whether all samples contradict a
/// merge rule that the example shows. Errors: Other if results cannot be compared.
llvm::Expected<bool> checkLaterMicroBatches(BatchDiscovery &found, const Signature &signature,
                                            const Values &inputs, const DiscoveryOptions &options,
                                            ModelRuns runAll);

} // namespace pipec
