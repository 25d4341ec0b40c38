// Whether the state that micro-batches write makes a result differ from that of the whole batch.
#pragma once

#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// The part of state in such a difference.
enum class StateEffect {
  None, // none: a micro-batch gives the same result after the ones before it as alone, as it does
        // beside a counter that nothing reads
  Some, // it does not, or no run shows it; other reasons are possible, too
  All   // it does not, and micro-batches that run alone give the result of the whole batch
};

/// One per leaf of the signature. If the model writes state and the checks of `found` have a
/// difference, the later parts of its trial run on copies of their own, whose state is as saved;
/// not if a batch norm explains the difference. Errors: LibTorch's.
llvm::Expected<std::vector<StateEffect>> stateEffects(const BatchDiscovery &found,
                                                      const Signature &signature,
                                                      const DiscoveryOptions &options,
                                                      ModelRuns runAll);

} // namespace pipec
