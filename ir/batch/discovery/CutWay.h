// A way to cut the arguments of a model, and what trials of it show.
#pragma once

#include "ir/batch/ResultCheck.h"
#include "ir/batch/discovery/CutTrial.h"

namespace pipec {

/// Whether the result has an entry or row per sample, whether micro-batches change it at all, and
/// whether it has sizes.
bool hasRows(const OutputLeaf &leaf);
bool follows(const OutputLeaf &leaf);
bool hasSizes(const OutputLeaf &leaf);

/// One way to cut, and the resulting signature.
struct CutWay {
  Signature signature;
  CutTrial trial;
  std::vector<ResultCheck> checks;
  std::vector<bool> isZero; // per result, in all runs
  std::string mixing;       // a result in which samples affect each other
  CutFit fit = CutFit::OneSize;
  bool isTie = false; // arguments that it gives whole may be samples: no result with rows shows it

  /// Whether rows affect each other, as the steps of a sequence do, or no result has rows.
  bool mayBeTime() const;

  /// Whether no result has rows along a cut dimension. The cut argument may then be a table, such
  /// as `weight` of x @ weight.t().
  bool turnsBatch() const;

  /// Whether it fits well enough to take the batch from a tensor other than the first.
  bool allFollow() const;

  /// Whether the runs confirm a result's merge rule. Samples that are all equal show whether a
  /// number is a sum or a mean, too.
  bool shows(size_t leaf, bool drawsRandom) const;

  /// Whether no result is a list with a value per micro-batch.
  bool mergesAll() const;
};

/// Whether a way along dimensions that neither the user nor convention chooses wins against the
/// best one, if there is one. It must fit in every respect, and a result with rows must show it: a
/// single number, such as a loss, may be the same sum along any dimension. If samples affect each
/// other in both ways, the one that merges every result wins.
bool isBetterSecond(const CutWay &way, const CutWay *best);

/// How well a way fits whose trial, rules, checks and mixing are known. `given`: per result,
/// whether the user gave its rule.
CutFit fitOf(const CutWay &way, const std::vector<bool> &given);

} // namespace pipec
