// The experiments that show how a model behaves if its arguments are cut in one way.
#pragma once

#include "ir/batch/CutCandidates.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// How well a way to cut fits the model, best first.
enum class CutFit {
  Equal,     // micro-batches give the results of the whole batch
  Reduced,   // they do, but every result with sizes is a sum or a mean over samples
  Unequal,   // micro-batches run, but their results differ
  Unrelated, // no result follows the batch
  NoParts,   // the later samples do not run alone
  OneSize    // the model refuses other batch sizes
};

/// Batch sizes of the trials. Two sizes do not show a linear function, and with one sample too many
/// sizes are equal.
inline constexpr int64_t kTrialSizes[] = {2, 3, 5};
inline constexpr int64_t kWholeSamples = 5, kVariedSamples = 3, kSmallSamples = 2;
inline constexpr int64_t kPartSamples[] = {3, 2};
inline constexpr int64_t kHalfSamples[] = {3, 2}; // of the batches of tryHalves()
inline constexpr int64_t kPokedSample = 1; // of kVariedSamples: there are results before and after
                                           // it

/// A whole batch and its parts, most often two halves.
struct Halves {
  Experiment whole, parts;
};

/// One candidate tried on an example of one micro-batch.
///
/// experiment  calls (samples)                          what it shows
/// example     as given                                 the model runs
/// whole       5                                        the result of a whole batch
/// parts       the first 3 of these, then the last 2    its micro-batches, one after the other
/// varied      the first 3, then twice other values     what follows values, or earlier calls
/// poked       the first 3, one sample changed          which rows follow that sample
/// small       2                                        a third size
struct CutTrial {
  CutCandidate candidate;
  std::string refusal;      // why the model refuses another size; empty: it does not
  bool runsDoubled = false; // with `refusal`: a batch twice as large as the example runs, as of a
                            // model that needs an even number of samples; then `doubled` is it
  std::string partsRefusal; // why parts do not run alone; empty: they do
  bool distinct = true;     // the samples of `whole` differ
  int64_t variedSamples = kVariedSamples;
  Experiment example, whole, parts, varied, poked, small;
  Halves doubled;
  Values base; // what all experiments but `example` are made of

  bool runs() const { return refusal.empty(); }
  /// Why no merged result was compared with the whole batch's; empty: it was.
  std::string notTried(bool drawsRandom) const;
  /// The experiments that ran, in the order above, and the samples of each call.
  std::vector<std::pair<const Experiment *, std::vector<int64_t>>> experiments() const;
};

/// `example` has the arguments of one micro-batch of candidate.batch samples, `exampleResult` the
/// model's result for them, if it is known. All experiments run at once, because each of them may
/// take seconds on one thread; if the model refuses the whole batch, the others do not count. Tries
/// no batch of one sample: its sizes show too little, and some models refuse it. Errors: the
/// model's, if the example fails.
llvm::Expected<CutTrial> tryCut(const CutCandidate &candidate, const Values &example,
                                std::optional<c10::IValue> exampleResult, ModelRuns runAll);

/// Whether the model takes another batch size in this way: one run, for a way that is of no use
/// otherwise.
bool takesOtherSize(const CutCandidate &candidate, const Values &example, ModelRuns runAll);

/// More whole batches, of 6 and of 4 samples, each with its two halves and with several sets of
/// values, also with the same samples in both halves: then a sum is twice that of a half, and a
/// maximum is not. A number that adds up over 5 = 3 + 2 by coincidence, such as x.size(0) // 2 or
/// an index, does not add up over all.
struct HalvesTrial {
  std::vector<Halves> ran;
  std::string refusal; // why one of the two sizes did not run; empty: both did
};
HalvesTrial tryHalves(CutTrial &trial, ModelRuns runAll);

/// Whole batches of 6 samples, each with its two halves, for results that the experiments above do
/// not show: labels that are equal in the example differ. `moves`: so do fractions, by amounts that
/// make a 0 or an infinite number something else. What does not run is left out.
std::vector<Halves> tryOtherValues(CutTrial &trial, bool moves, ModelRuns runAll);

/// A whole batch that is taken evenly from `inputs`, and its parts of `samples` samples. Nothing is
/// said of what does not run.
Halves tryOwnSamples(CutTrial &trial, const Values &inputs, llvm::ArrayRef<int64_t> samples,
                     ModelRuns runAll);
/// The same with the example's samples, made distinct if the model accepts that.
Halves tryOtherSize(CutTrial &trial, llvm::ArrayRef<int64_t> samples, ModelRuns runAll);

/// Runs `varied` at the size of the example, for a model that runs at one size only.
void varyExample(CutTrial &trial, ModelRuns runAll);

} // namespace pipec
