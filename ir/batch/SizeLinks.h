// How the sizes of several examples hang together: the length of a mask, say, is one more than that
// of the cache.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// Of dimensions beside the batch that differ between the examples (each one value per argument): a
/// sentence as "t = dimension 2 of past; t + 1 = dimension 1 of mask". Sizes are linked where they
/// differ by the same number in every example, or are the same multiple. Empty: none differs.
std::string sizeLinks(const Signature &signature, llvm::ArrayRef<Values> examples);

} // namespace pipec
