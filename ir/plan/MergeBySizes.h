// Merge rules against the sizes of a result: which rules the sizes alone allow.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// The feature of plans with rules that do not follow from sizes: sums, joined lists, means of
/// tensors with sizes, and rules given by a user.
inline constexpr llvm::StringLiteral kMergeRulesFeature = "merge-rules";

/// The dimension that is a multiple of the batch if no other dimension depends on the batch;
/// otherwise nothing.
std::optional<int64_t> growingDim(const TensorSpec &spec);

/// Why the sizes contradict the rule; empty if they allow it. A tensor with one size that is a
/// multiple of the batch is concatenated along it, a single float is averaged, and any other value
/// is the same or a list.
std::string mergeAgainstSizes(const Signature &signature, const OutputLeaf &leaf);

/// Why this rule cannot merge any values of micro-batches; empty if it can.
std::string mergeProblem(const OutputLeaf &leaf);

} // namespace pipec
