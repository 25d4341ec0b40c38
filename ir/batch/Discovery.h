// How the batch of a model is cut and its results become one: found by running the model on an
// example.
#pragma once

#include "ir/batch/CutTrial.h"
#include "ir/batch/ResultCheck.h"

#include <functional>

namespace pipec {

/// A merge rule that the user gave: the path of a result, or of a part of the result tree.
using GivenMerge = std::pair<std::string, MergeRule>;

struct DiscoveryOptions {
  std::vector<bool> batchDimGiven; // by argument; the dimension is in the signature
  std::vector<GivenMerge> merges;
  int64_t microBatches = 1; // of the inputs: the example is the first of as many
  bool findsTree = false;   // the tree of the result is read off results, else it is known
  /// Whether results of two runs differ by what was drawn; asked after the first run.
  std::function<bool()> drawsRandom = [] { return false; };
  bool writesState = false; // results may follow earlier calls
  bool trustsSizes = false; // sizes that the author did not think of may run for ever
};

/// What the experiments showed, beside what is in the signature.
struct BatchDiscovery {
  std::string notCut;                // why no input is cut; empty otherwise
  std::vector<ResultCheck> results;  // per leaf
  std::vector<std::string> notes;    // sentences for a report: how the batch is cut
  std::vector<std::string> warnings; // results that are not the whole batch's
  CutTrial trial;                    // of the way that was chosen
};

/// Finds batchDim of the inputs that are not given, batchSymbolic, batchSize, sizes of inputs and
/// leaves as a*B+b, and the merge rule of each leaf; with options.findsTree the tree of the result,
/// too. Of several ways to cut (CutCandidates.h) the first wins whose micro-batches give what the
/// whole batch gives, sample by sample; else the first that runs. A model that runs at no other
/// size is batchSymbolic = false and gets its rules from the example alone. Where parts of the
/// batch cannot run alone (offsets into another input begin at 0, edges of a graph, a list with an
/// entry per sample) no input is cut, sizes that follow the batch are dynamic, and `notCut` says
/// why; unless the user named a dimension. Errors: Usage when given dimensions disagree, a path of
/// options.merges does not exist, or its rule does not fit; that of the model when the example
/// fails, with the dimension or the batch size that would help.
llvm::Expected<BatchDiscovery> discoverBatch(Signature &signature, const Values &inputs,
                                             const DiscoveryOptions &options, ModelRuns runAll);

/// Sets the rules of `merges`. Errors: Usage for an unknown path or a rule that fits no value of
/// that type.
llvm::Error giveMerges(Signature &signature, llvm::ArrayRef<GivenMerge> merges);

/// Leaves that `merges` name.
std::vector<bool> givenLeaves(const Signature &signature, llvm::ArrayRef<GivenMerge> merges);

} // namespace pipec
