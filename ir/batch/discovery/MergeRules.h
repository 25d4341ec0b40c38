// How the results of micro-batches are merged, learnt from the model's results at several sizes.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <optional>

namespace pipec {

/// What the runs showed of one output leaf.
struct LeafEvidence {
  std::vector<std::pair<int64_t, c10::IValue>> seen; // samples, and the value
  /// Results of a whole batch, and of micro-batches of kPartSamples samples; empty: not tried.
  std::vector<c10::IValue> whole, parts;
  bool drawsRandom = false; // whole and parts also differ by random draws
};

/// The rule of one output leaf.
///   concat  one dimension is a multiple of the samples
///   join    a list has the same number of entries per sample, or all its inner lists do (depth 1)
///   same    the value is equal in all runs
///   sum     the parts add up to the whole
///   mean    the average of the parts, weighted by samples, is the whole; also any other float
///   list    none of these
/// A value that is 0 or empty in all runs fits `same`, but it may be a count that happens to be 0
/// or a list that happens to be empty. It gets a rule that also gives 0 or empty: sum, mean for a
/// single float, or join. `fixed` is the only batch size that the model accepts, if there is one.
MergeRule findMergeRule(const LeafEvidence &evidence, std::optional<int64_t> fixed);

/// A rule for whole numbers that may fit by coincidence: a sum or mean of numbers that are not
/// simply a multiple of the samples, or one number that was the same in all runs. More runs have to
/// confirm it.
bool isDoubtful(const LeafEvidence &evidence, const MergeRule &rule);

/// Whether the value is 0, a tensor of zeros, or an empty list: such values fit several rules.
bool isZeroOrEmpty(const c10::IValue &value);

} // namespace pipec
