// Finds out how the batch of a model is cut and how results are merged, by running the model on an
// example.
#pragma once

#include "ir/batch/ResultCheck.h"
#include "ir/batch/discovery/CutTrial.h"
#include "ir/batch/discovery/GivenMerges.h"

#include <functional>

namespace pipec {

struct DiscoveryOptions {
  std::vector<bool> batchDimGiven; // by argument; the dimension is in the signature
  std::vector<GivenMerge> merges;
  int64_t microBatches = 1; // of the inputs: the example is the first of them
  bool findsTree = false;   // true: the tree of the result is read from results; false: it is known
  /// Whether results of two runs differ because of random draws; asked after the first run.
  std::function<bool()> drawsRandom = [] { return false; };
  /// An operator whose number of random draws depends on the values of its input, in words; empty:
  /// there is none. A change of one sample then shifts the draws of others. Asked after the first
  /// run.
  std::function<std::string()> valueDependentDraw = [] { return std::string(); };
  /// An operator such as torch.unique, in words: sizes follow values, so that a sum over the values
  /// of the example proves nothing about others. Empty: there is none.
  std::string listsValues;
  /// Whether the model writes state, so that results may depend on earlier calls; asked after the
  /// first run.
  std::function<bool()> writesState = [] { return false; };
  std::string norms;   // modules whose batch norms use the statistics of each micro-batch
  bool trains = false; // one of the results may be a loss
  /// Runs the same model with dropout off, so that it draws nothing; null: it draws otherwise, too.
  ModelRuns withoutDropout;
  bool trustsSizes = false; // the model may loop forever at sizes that its author did not expect
  /// Of sizeConstantsIn(), to compare batches on both sides of them, if the inputs are such.
  std::vector<int64_t> sizeConstants;
};

/// What the experiments showed, beside what is in the signature.
struct BatchDiscovery {
  std::string notCut;                // why no input is cut; empty: some input is
  bool samplesInLists = false;       // that reason: entries of a list are the samples
  std::vector<ResultCheck> results;  // per leaf
  std::vector<bool> shown;           // per leaf: the runs confirm its merge rule
  std::vector<std::string> notes;    // sentences for a report: how the batch is cut
  std::vector<std::string> warnings; // results that differ from those of the whole batch
  CutTrial trial;                    // of the chosen way to cut
  std::string suggestion;            // a --batch-dim of which a trial fits better; or empty

  /// Takes what another comparison with the whole batch says: every difference, and results that
  /// were not tried.
  void takeChecks(llvm::ArrayRef<ResultCheck> checks) {
    for (size_t l = 0; l < results.size(); ++l)
      if (checks[l].equal == ResultCheck::Equal::No ||
          results[l].equal == ResultCheck::Equal::NotTried)
        results[l] = checks[l];
  }
};

/// Finds batchDim of the inputs that are not given, batchSymbolic, batchSize, sizes of inputs and
/// leaves as a*B+b, and the merge rule of each leaf; with options.findsTree also the tree of the
/// result. Of several ways to cut (CutCandidates.h), the first wins whose micro-batches give the
/// results of the whole batch with independent samples, unless another one cuts more arguments and
/// only samples that affect each other make it differ; otherwise the first that runs, or one along
/// other dimensions if only that merges every result. A model that runs at no other size gets
/// batchSymbolic = false, and its rules come from the example alone. If
/// parts of the batch cannot run alone (offsets into another input begin at 0, edges of a graph, a
/// list with an entry per sample) and the user named no dimension, no input is cut, sizes that
/// follow the batch are dynamic, and `notCut` gives the reason. With several micro-batches the
/// example is the first of them, or all of them if the others contradict a sum or an equal value
/// that it shows, as they do for a maximum. Errors: Usage if given dimensions
/// disagree, a path of options.merges does not exist, or its rule does not fit; the model's error
/// if the example fails, with the dimension or the batch size that would help.
llvm::Expected<BatchDiscovery> discoverBatch(Signature &signature, const Values &inputs,
                                             const DiscoveryOptions &options, ModelRuns runAll);

} // namespace pipec
