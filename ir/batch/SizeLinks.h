// How the sizes of several examples are linked: for instance, the length of a mask is one more than
// that of the cache.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// Describes the dimensions beside the batch that differ between the examples (each with one value
/// per argument), as "t = dimension 2 of past; t + 1 = dimension 1 of mask". Two sizes are linked
/// if they differ by the same number in every example, or are the same multiple. Empty if no size
/// differs.
std::string sizeLinks(const Signature &signature, llvm::ArrayRef<Values> examples);

} // namespace pipec
