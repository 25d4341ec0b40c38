// Models in which samples see each other: a mean over the batch, batch statistics, attention across
// it. Micro-batches give other numbers there than the whole batch at once.
#pragma once

#include "ir/MicroBatch.h"

namespace pipec {

/// What differs between results of the whole example and of its samples from `begin` alone, by more
/// than rounding: "output 0 of sample 4: 0.276 with the others, 25.15 without"; empty where nothing
/// does. `part` may hold more samples behind these. Looks at numbers with fractions in leaves that
/// are joined sample by sample.
std::string samplesThatMix(const Signature &signature, llvm::ArrayRef<c10::IValue> whole,
                           llvm::ArrayRef<c10::IValue> part, int64_t begin, int64_t count);

} // namespace pipec
