// How the results of micro-batches become one: learnt from what the model gives at several sizes.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <optional>

namespace pipec {

/// What runs showed of one output leaf.
struct LeafEvidence {
  std::vector<std::pair<int64_t, c10::IValue>> seen; // samples, and the value
  /// Of a whole batch, and of micro-batches of kPartSamples of it; empty: not tried.
  std::vector<c10::IValue> whole, parts;
  bool drawsRandom = false; // whole and parts differ by what was drawn, too
};

/// The rule of one output leaf.
///   concat  one dimension is a multiple of the samples
///   join    a list has as many entries for each sample, or all lists directly below do (depth 1)
///   same    all runs have one value
///   sum     the parts add up to the whole
///   mean    the parts' average, weighed by samples, is the whole; also any other float
///   list    nothing of these
/// What is 0 or empty in all runs is the same in all, but may be a count, or a list of what is not
/// there: a sum, a mean for a single float, or joined, which is 0 or empty as well.
/// `fixed`: the size that all runs have, of a model that takes no other.
MergeRule findMergeRule(const LeafEvidence &evidence, std::optional<int64_t> fixed);

/// A sum of whole numbers that are not simply a multiple of the samples: more sizes have to show
/// it.
bool isDoubtfulSum(const LeafEvidence &evidence, const MergeRule &rule);

/// 0, tensors of zeros, and empty lists: values that fit several rules.
bool isZeroOrEmpty(const c10::IValue &value);

} // namespace pipec
