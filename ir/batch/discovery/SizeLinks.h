// How the sizes of several examples are linked: for instance, the length of a mask is one more than
// that of the cache.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/batch/PartSizes.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// Describes the dimensions beside the batch that differ between the examples (each with one value
/// per argument), as "t = dimension 2 of past; t + 1 = dimension 1 of mask". Two sizes are linked
/// if they differ by the same number in every example, or are the same multiple. A part of an
/// argument is named as "past.0" unless all tensors of the argument vary alike. Empty if no size
/// differs.
std::string sizeLinks(const Signature &signature, llvm::ArrayRef<Values> examples);

/// The sizes beside the batch that differ between these runs (each with one value per argument), of
/// arguments that are trees; a plan has the dimensions of arguments that are tensors.
std::vector<PartSizes> partSizes(const Signature &signature, llvm::ArrayRef<Values> runs);

} // namespace pipec
