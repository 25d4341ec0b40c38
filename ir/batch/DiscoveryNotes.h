// Sentences about how a batch is cut, for people: what differs from the whole batch, and the option
// that says otherwise.
#pragma once

#include "ir/batch/Discovery.h"

namespace pipec {

/// Sets notes and warnings of `found`. `mixing`: a result in which samples affect each other; empty
/// where none is known.
void addNotes(BatchDiscovery &found, const Signature &signature, const std::string &mixing,
              const Values &inputs, const DiscoveryOptions &options);

/// More than one micro-batch of what is not cut, for `why`.
llvm::Error notCutError(const std::string &why, int64_t microBatches);

} // namespace pipec
