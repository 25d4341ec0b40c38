// Compares the results of micro-batches with those of the whole batch, and checks whether samples
// affect each other.
#pragma once

#include "ir/batch/ResultCheck.h"
#include "ir/batch/discovery/CutTrial.h"

namespace pipec {

/// The leaves of all results of a trial, by experiment.
struct TrialLeaves {
  std::vector<Values> example, whole, parts, varied, poked, small; // [call][leaf]
};

/// Returns one check per leaf of `signature`, whose merge rules are known. A check compares the
/// merged parts of the trial with its whole, up to rounding, because micro-batches run other
/// kernels than the batch. `notTried` is the reason why nothing can be compared, or empty.
/// `samples`: of each part.
std::vector<ResultCheck> checkResults(const Signature &signature, const TrialLeaves &leaves,
                                      const std::string &notTried,
                                      llvm::ArrayRef<int64_t> samples = kPartSamples);

/// A sum of a `doubtful` result that was not tried at all sizes, because of `why` (empty: it was),
/// is not proved: its Yes becomes NotTried.
void doubtSums(std::vector<ResultCheck> &checks, const Signature &signature,
               llvm::ArrayRef<size_t> doubtful, const std::string &why);

/// The same for reduced results of a model with an operator such as torch.unique, whose results
/// have an entry per distinct value: other values may give more entries. A single float, such as a
/// loss, has no entries; a whole number may count them. `listsValues` names the operator; empty:
/// there is none.
void doubtListedValues(std::vector<ResultCheck> &checks, const Signature &signature,
                       const std::string &listsValues);

/// Whether all samples of a batch contradict a sum or an equal value that its first micro-batch
/// shows or does not try, such as one of zeros only. `given`: per leaf, whether the user gave its
/// rule.
bool contradict(const Signature &signature, llvm::ArrayRef<ResultCheck> ofExample,
                llvm::ArrayRef<ResultCheck> ofAll, const std::vector<bool> &given);

/// Finds the first result with a row or entry per sample in which a change of one sample also
/// changes other samples. Describes it as "result [0,3] changes from 0.5 to 0.25 with sample 1
/// alone"; empty if samples are independent. `paths` names the leaves.
std::string crossTalk(const Signature &signature, const TrialLeaves &leaves,
                      llvm::ArrayRef<std::string> paths);

} // namespace pipec
