// Ways to cut more of the arguments than the chosen one does.
#pragma once

#include "ir/batch/CutCandidates.h"

namespace pipec {

/// The first of `seconds` (of secondDimensions()), if it cuts all that `chosen` cuts and also a
/// tensor of three or more dimensions that `chosen` gives whole. Such inputs come from sequences
/// with their steps first: the queries q[steps, samples, width] of an attention to
/// k[other steps, samples, width] are independent along both dimensions, but only the second one is
/// common. An input of one row, such as positions[1, steps, width], holds no samples.
std::optional<CutCandidate> fullerCut(const CutCandidate &chosen,
                                      llvm::ArrayRef<CutCandidate> seconds,
                                      llvm::ArrayRef<c10::IValue> inputs);

} // namespace pipec
