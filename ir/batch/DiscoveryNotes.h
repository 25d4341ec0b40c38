// Sentences for the report about how a batch is cut: which results differ from the whole batch, and
// which option changes it.
#pragma once

#include "ir/batch/Discovery.h"

namespace pipec {

/// Sets notes and warnings of `found`. `mixing` is a result in which samples affect each other, or
/// empty if none is known.
void addNotes(BatchDiscovery &found, const Signature &signature, const std::string &mixing,
              const Values &inputs, const DiscoveryOptions &options);

/// A note: `fuller` keeps samples independent as `chosen` does, and cuts arguments that `chosen`
/// gives whole.
std::string noteOnFullerCut(const Signature &chosen, const Signature &fuller);

/// The error for more than one micro-batch of a model whose inputs are not cut because of `why`.
llvm::Error notCutError(const std::string &why, bool samplesInLists, int64_t microBatches);

} // namespace pipec
