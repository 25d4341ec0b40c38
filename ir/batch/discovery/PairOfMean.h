// Two results of a training that look like a sum and its count, of which the first is a mean.
#pragma once

#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// Recognises a mean over counted elements, such as labels that are not ignored. Over micro-batches
/// neither its sum nor its mean equals its value for the whole batch, so the comparisons show no
/// rule. That value is near the mean and far from the sum. If the first of two results that
/// mayBePair() behaves so, it counts as shown to be no sum. The rule includes models that draw
/// random numbers, because these move a loss by less.
void noteMeanOfPair(BatchDiscovery &found, Signature &signature, const DiscoveryOptions &options);

} // namespace pipec
