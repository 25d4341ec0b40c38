// The longest common subsequence of two sequences that are nearly the same. Hand-made because
// LLVM's edit_distance.h gives the number of differences and not their places.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace pipec {

/// Places (in `a`, in `b`) of a longest common subsequence, ascending. Time and memory grow with
/// the number of entries that only one sequence has. If these are more than `mostDifferences`, it
/// returns the common prefix and suffix only.
std::vector<std::pair<size_t, size_t>> commonSubsequence(llvm::ArrayRef<size_t> a,
                                                         llvm::ArrayRef<size_t> b,
                                                         size_t mostDifferences = 2000);

} // namespace pipec
