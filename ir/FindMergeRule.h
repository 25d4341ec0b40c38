// How the results of micro-batches become one: learnt from what the model gives at several sizes.
#pragma once

#include "ir/MicroBatch.h"

namespace pipec {

/// The rule of one output leaf, from the size of the batch and the leaf's value in every run.
/// `fixed`: the size that all runs have, of a model that takes no other.
MergeRule findMergeRule(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen,
                        std::optional<int64_t> fixed);

} // namespace pipec
