// Losses of models that draw random numbers: what runs show of them although no two draw alike.
#pragma once

#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// The whole batch of the trial and its parts, run without dropout. What does not run has no
/// results.
Halves runWithoutDropout(const CutTrial &trial, ModelRuns runAll);

/// The rule of a result that test runs suggest. A mean over few samples may look like a sum by
/// chance if random numbers scatter it.
MergeRule ruleOfDrawnLoss(const OutputLeaf &leaf);

/// Compares losses that are merged by mean, or for which draws hid any rule, with those of the
/// whole batch, by runs of the trial without dropout. A loss that is a mean or a sum there gets
/// that rule. So do the two results that may be a sum and its count (mayBePair()). Does nothing
/// without options.withoutDropout. Errors: LibTorch's.
llvm::Error checkDrawnLosses(BatchDiscovery &found, Signature &signature,
                             const DiscoveryOptions &options);

} // namespace pipec
