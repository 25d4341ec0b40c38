// Two results of a training that look like a sum and its count, of which the first is a mean.
#pragma once

#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// A mean over the elements that count (labels that are not ignored) adds up to nothing: over
/// micro-batches neither its sum nor its mean is that of the whole batch, so the comparisons show
/// no rule. But it stays near the mean, and far from the sum. Where the first of two results that
/// mayBePair() does so, it counts as shown to be no sum. Also for models that draw random numbers:
/// these move a loss by less.
void noteMeanOfPair(BatchDiscovery &found, Signature &signature, const DiscoveryOptions &options);

} // namespace pipec
