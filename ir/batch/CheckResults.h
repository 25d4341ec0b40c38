// Are the results of micro-batches those of the whole batch, and do samples affect each other?
#pragma once

#include "ir/batch/CutTrial.h"
#include "ir/batch/ResultCheck.h"

namespace pipec {

/// The leaves of every result of a trial, by experiment.
struct TrialLeaves {
  std::vector<Values> example, whole, parts, varied, poked, small; // [call][leaf]
};

/// One check per leaf of `signature`, whose merge rules are known: the parts of the trial merged,
/// against its whole. Up to rounding, as micro-batches have other kernels than the batch.
/// `notTried`: why nothing can be compared; empty otherwise.
std::vector<ResultCheck> checkResults(const Signature &signature, const TrialLeaves &leaves,
                                      const std::string &notTried);

/// The first result with a row or entry per sample in which other samples than the one that changed
/// have other values, as "result [0,3] changes from 0.5 to 0.25 with sample 1 alone"; empty where
/// samples are independent. `paths` names leaves.
std::string crossTalk(const Signature &signature, const TrialLeaves &leaves,
                      llvm::ArrayRef<std::string> paths);

} // namespace pipec
