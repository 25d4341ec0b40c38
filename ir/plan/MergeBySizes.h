// Merge rules against the sizes of a result: what sizes alone say of how micro-batches become one.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// The feature of plans with rules that sizes do not say: sums, joined lists, means of tensors with
/// sizes, and what a user gave.
inline constexpr llvm::StringLiteral kMergeRulesFeature = "merge-rules";

/// Why sizes say another rule; empty where they allow it. A tensor that has one size as a multiple
/// of the batch is joined along it, a single float is averaged, all else is the same or a list.
std::string mergeAgainstSizes(const Signature &signature, const OutputLeaf &leaf);

/// Why no micro-batches' values can become one by this rule; empty where they can.
std::string mergeProblem(const OutputLeaf &leaf);

} // namespace pipec
