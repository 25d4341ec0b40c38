// Sentences for the report about how a batch is cut: which results differ from the whole batch, and
// which option changes it.
#pragma once

#include "ir/batch/discovery/CutWay.h"
#include "ir/batch/discovery/Discovery.h"
#include "ir/batch/discovery/StateEffect.h"

namespace pipec {

/// Sets notes and warnings of `found`. `way`: the choice, whose signature and checks have moved.
/// `effects`: of stateEffects().
void addNotes(BatchDiscovery &found, const Signature &signature, const CutWay &way,
              const Values &inputs, const DiscoveryOptions &options,
              llvm::ArrayRef<StateEffect> effects);

/// A note on attributes that micro-batches write one after the other.
std::string noteOnState(llvm::ArrayRef<std::string> names);

/// A warning: `fuller` is the choice, although results fit better if some of its arguments are
/// whole, as in `fewer`.
std::string warningOnTie(const Signature &fuller, const Signature &fewer);

/// Why a loss depends on the micro-batches. `norms`: of DiscoveryOptions.
std::string causeOfNorms(const std::string &norms);

/// A note: `fuller` keeps samples independent as `chosen` does, and cuts arguments that `chosen`
/// gives whole.
std::string noteOnFullerCut(const Signature &chosen, const Signature &fuller);

/// The error for more than one micro-batch of a model whose inputs are not cut because of `why`.
llvm::Error notCutError(const std::string &why, bool samplesInLists, int64_t microBatches);

} // namespace pipec
