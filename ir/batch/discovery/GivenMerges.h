// Merge rules that a user gave by the path of a result.
#pragma once

#include "ir/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipec {

/// A merge rule that the user gave: the path of a result, or of a part of the result tree.
using GivenMerge = std::pair<std::string, MergeRule>;

/// Sets the rules of `merges`. Errors: Usage for an unknown path, or for a rule that fits no value
/// of the leaf's type.
llvm::Error giveMerges(Signature &signature, llvm::ArrayRef<GivenMerge> merges);

/// For each leaf, whether `merges` names it.
std::vector<bool> givenLeaves(const Signature &signature, llvm::ArrayRef<GivenMerge> merges);

} // namespace pipec
