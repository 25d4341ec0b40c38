// The experiments that show what a model does when its arguments are cut in one way.
#pragma once

#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"

namespace pipec {

/// How well a way of cutting fits the model, best first.
enum class CutFit {
  Equal,     // micro-batches give what the whole batch gives
  Reduced,   // they do, but every result with sizes is a sum or a mean over samples
  Unequal,   // they run, and give something else
  Unrelated, // no result follows the batch
  NoParts,   // the later samples do not run alone
  OneSize    // other sizes of the batch do not run
};

/// Batch sizes that a model is tried at: two show no line, and one sample says too little.
inline constexpr int64_t kTrialSizes[] = {2, 3, 5};
inline constexpr int64_t kWholeSamples = 5, kVariedSamples = 3, kSmallSamples = 2;
inline constexpr int64_t kPartSamples[] = {3, 2};
inline constexpr int64_t kPokedSample = 1; // of kVariedSamples: results before and behind it show

/// One candidate tried on an example of one micro-batch.
///
/// experiment  calls (samples)                          what it shows
/// example     as given                                 the model runs
/// whole       5                                        the result of a whole batch
/// parts       the first 3 of these, then the last 2    its micro-batches, one after the other
/// varied      3, then twice with other values          what follows values, or earlier calls
/// poked       3, one sample changed                    which rows follow that sample
/// small       2                                        a third size
struct CutTrial {
  CutCandidate candidate;
  std::string refusal;      // why another size does not run; empty: it does
  std::string partsRefusal; // why parts do not run alone; empty: they do
  bool distinct = true;     // the samples of `whole` differ
  int64_t variedSamples = kVariedSamples;
  Experiment example, whole, parts, varied, poked, small;

  bool runs() const { return refusal.empty(); }
  /// Those that ran, in the order above.
  std::vector<const Experiment *> experiments() const;
  /// Samples of each call of an experiment, in order.
  std::vector<int64_t> samplesOf(const Experiment &experiment) const;
};

/// `example`: arguments of one micro-batch of candidate.batch samples. `exampleResult`: of the
/// model on them. Tries no batch of one sample: sizes say too little there, and some models refuse
/// it.
CutTrial tryCut(const CutCandidate &candidate, const Values &example, c10::IValue exampleResult,
                ModelRuns runAll);

/// Two more whole batches, of 6 and of 4 samples, each with its two halves: what adds up over 5 = 3
/// + 2 by chance, as x.size(0) // 2, does not add up over both.
struct Halves {
  Experiment whole, parts;
};
/// Those that run.
std::vector<Halves> tryHalves(const CutTrial &trial, ModelRuns runAll);

/// For a model that runs at one size only: `varied` at the size of the example.
void varyExample(CutTrial &trial, ModelRuns runAll);

/// The first `samples` of what is cut, more than there are: some of them again; the rest whole.
Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples);

} // namespace pipec
