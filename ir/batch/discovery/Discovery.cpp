#include "ir/batch/discovery/Discovery.h"

#include "ir/TorchError.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/discovery/ChanceFit.h"
#include "ir/batch/discovery/CutWay.h"
#include "ir/batch/discovery/DiscoveryNotes.h"
#include "ir/batch/discovery/DrawnLoss.h"
#include "ir/batch/discovery/FullerCut.h"
#include "ir/batch/discovery/Interaction.h"
#include "ir/batch/discovery/JudgeWay.h"
#include "ir/batch/discovery/LaterMicroBatches.h"
#include "ir/batch/discovery/LaterWays.h"
#include "ir/batch/discovery/PairOfMean.h"
#include "ir/batch/discovery/SamplesInLists.h"
#include "ir/batch/discovery/SamplesOfLoss.h"
#include "ir/batch/discovery/StateEffect.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/batch/discovery/TrialValues.h"
#include "ir/batch/discovery/TriedSuggestion.h"
#include "ir/batch/discovery/WhyUncut.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

class Discoverer {
public:
  Discoverer(const Signature &untried, const Values &inputs, const DiscoveryOptions &options,
             bool ofAll, ModelRuns runAll, ModelRunner run)
      : untried_(untried), inputs_(inputs), options_(options),
        isWhole_(ofAll || options.microBatches == 1), runAll_(runAll), run_(run),
        named_(anyDimGiven(untried, options.batchDimGiven)),
        whyUncut_(untried, options.batchDimGiven, named_, run) {}

  /// After discover(): whether later micro-batches say something else than the first, the example.
  bool isContradicted() const { return contradicted_ && !isWhole_; }

  llvm::Expected<BatchDiscovery> discover(Signature &signature) {
    std::vector<CutCandidate> candidates =
        TRY(cutCandidates(untried_, inputs_, options_.batchDimGiven));
    TRY(tryGroups(candidates));
    TRY(tryOtherDims(candidates));
    if (options_.microBatches > 1 && best_ && best_->fit == CutFit::OneSize)
      TRY(refuseFitByChance(best_->signature, inputs_, best_->trial.candidate.batch,
                            options_.batchDimGiven, run_));
    if (!best_) // nothing to cut, or nothing runs
      TRY(runUncut());
    if (notCut_.empty() && !isCut(best_->signature))
      notCut_ = whyUncut_.inLists(best_->signature, inputs_);
    else if (notCut_.empty() && !named_)
      notCut_ = whyUncut_.besideBatch(best_->signature, inputs_);
    return finish(signature);
  }

private:
  /// Tries each group's first candidate, and the others of the group if that one does not fit.
  llvm::Error tryGroups(llvm::ArrayRef<CutCandidate> candidates) {
    while (!candidates.empty() && !isSettled()) {
      const size_t group = candidates.front().group;
      const auto rest =
          llvm::find_if(candidates, [&](const CutCandidate &one) { return one.group != group; });
      const size_t count = static_cast<size_t>(rest - candidates.begin());
      TRY(tryGroup(candidates.take_front(count)));
      candidates = candidates.drop_front(count);
    }
    return llvm::Error::success();
  }

  bool isSettled() const {
    if (!notCut_.empty())
      return !whyUncut_.mayHaveTable();
    return best_ && best_->fit == CutFit::Equal && !best_->turnsBatch();
  }

  llvm::Error tryGroup(llvm::ArrayRef<CutCandidate> candidates) {
    const bool first = !best_;
    const bool open = first || best_->fit >= CutFit::Unrelated || best_->fit == CutFit::Reduced;
    std::optional<CutWay> best;
    for (const CutCandidate &candidate : candidates) {
      std::optional<CutWay> way = TRY(tryWay(candidate, /*mayBeFixed=*/!best && open));
      if (way && (!best || (way->fit < best->fit && winsOver(*way, *best))))
        best = std::move(*way);
      if (best && best->fit == CutFit::Equal)
        break;
    }
    if (!notCut_.empty()) { // the numbers may be rows of a table that is given whole
      if (best && best->fit == CutFit::Equal && best->allFollow()) {
        notCut_.clear();
        best_ = std::move(best);
      }
      return llvm::Error::success();
    }
    const bool better =
        best &&
        (first || (best->fit < best_->fit && best->allFollow() && winsOver(*best, *best_)) ||
         (best->fit == CutFit::Equal && best->allFollow() && best_->turnsBatch() &&
          !best->turnsBatch()));
    if (best && best->fit >= CutFit::NoParts && open)
      notCut_ = named_ ? "" : whyUncut_.ofWay(*best);
    else if (best && best->fit != CutFit::Equal && open)
      notCut_ = whyUncut_.inLists(best->signature, best->trial.example.calls.front());
    if (better || !notCut_.empty())
      best_ = std::move(best);
    return llvm::Error::success();
  }

  /// Whether a way that fits better wins against `other`. If `other` cuts more tensors, it is kept
  /// unless a trial shows that their rows are no samples, because samples may affect each other.
  bool winsOver(CutWay &way, const CutWay &other) {
    const bool merges = other.allFollow() && other.mergesAll();
    if (other.fit != CutFit::Unequal || !merges || !cutsMore(other, way))
      return true;
    const bool draws = options_.drawsRandom();
    std::optional<bool> affects;
    if (!draws || options_.withoutDropout)
      affects = affectOthers(other, way, draws ? options_.withoutDropout : runAll_);
    const bool isNorm = !options_.norms.empty(); // it explains why the other one fits less well
    if (affects == false || (!affects && isNorm)) {
      tieDims_ = other.trial.candidate.dims;
      tieWarning_ = affects && isNorm ? "" : warningOnTie(other.signature, way.signature);
      return false;
    }
    way.isTie = llvm::none_of(way.signature.leaves, hasRows);
    return true;
  }

  /// Dimensions that neither the user nor convention chooses.
  llvm::Error tryOtherDims(const std::vector<CutCandidate> &candidates) {
    if (options_.trustsSizes || !notCut_.empty() || named_)
      return llvm::Error::success();
    if (best_ ? best_->fit == CutFit::OneSize : firstError_ && options_.microBatches > 1)
      for (const CutCandidate &other : otherDimensions(candidates, inputs_, options_.batchDimGiven))
        if (!best_ || best_->fit != CutFit::Equal)
          TRY(tryOther(other, [&](const CutWay &way) {
            return way.fit <= CutFit::Unequal && (!best_ || way.fit < best_->fit);
          }));
    const bool isHidden = best_ && hidesTime(*best_, options_, runAll_);
    if (best_ ? isHidden || best_->mayBeTime() || best_->fit == CutFit::OneSize
              : firstError_.has_value())
      for (const CutCandidate &second : secondDimensions(untried_, inputs_, options_.batchDimGiven))
        if (!best_ || best_->fit != CutFit::Equal || isHidden)
          TRY(tryOther(second, [&](const CutWay &way) {
            const CutWay *best = best_ ? &*best_ : nullptr;
            return isBetterSecond(way, best) || hasSamplesOfLoss(way, best, options_, runAll_);
          }));
    for (const CutCandidate &later :
         laterWays(untried_, inputs_, options_, best_ ? &*best_ : nullptr, firstError_.has_value()))
      if (!best_ || best_->fit != CutFit::Equal)
        TRY(tryOther(later, [&](const CutWay &way) {
          return isBetterLater(way, best_ ? &*best_ : nullptr);
        }));
    return llvm::Error::success();
  }

  llvm::Error tryOther(const CutCandidate &candidate,
                       llvm::function_ref<bool(const CutWay &)> isBetter) {
    std::optional<CutWay> way = TRY(tryWay(candidate));
    if (way && isBetter(*way))
      best_ = std::move(*way);
    return llvm::Error::success();
  }

  /// Returns nullopt if the example does not run in this way, and keeps the first such error. Also
  /// returns nullopt, without `mayBeFixed`, if no other batch size runs: such a way wins against
  /// none. Errors: those of the comparison.
  llvm::Expected<std::optional<CutWay>> tryWay(CutCandidate candidate, bool mayBeFixed = false) {
    if (candidate.batch < options_.microBatches && (best_ || firstError_))
      return std::nullopt;
    const int64_t all = candidate.batch;
    waysTried_.push_back(candidate.dims);
    Values example = inputs_;
    if (!isWhole_) {
      candidate.batch = (candidate.batch + options_.microBatches - 1) / options_.microBatches;
      if (!candidate.named) // one sample fits everything, even if the guess is wrong
        candidate.batch = std::max<int64_t>(2, candidate.batch);
      example = firstSamples(inputs_, candidate.dims, candidate.batch);
    }
    if (!mayBeFixed && !takesOtherSize(candidate, example, runAll_))
      return std::nullopt;
    // One run of the inputs themselves is enough for all ways.
    llvm::Expected<CutTrial> trial =
        tryCut(candidate, example, isWhole_ ? whole_ : std::nullopt, runAll_);
    if (!trial && candidate.batch == 1 && all > 2) // the whole batch is no part of it
      takePair(trial, candidate);
    if (!trial) {
      keepError(trial.takeError(), example, candidate);
      return std::nullopt;
    }
    if (isWhole_)
      whole_ = trial->example.results.front();
    CutWay way;
    way.trial = std::move(*trial);
    TRY(judgeWay(way, untried_, options_, runAll_));
    return way;
  }

  /// A model that refuses one sample, such as one with a batch norm, is cut like any other: two
  /// samples show how. That the micro-batches have one is for the run itself to refuse.
  void takePair(llvm::Expected<CutTrial> &trial, CutCandidate candidate) {
    candidate.batch = 2;
    llvm::Expected<CutTrial> pair = tryCut(
        candidate, firstSamples(inputs_, candidate.dims, candidate.batch), std::nullopt, runAll_);
    if (!pair || !pair->runs() || !pair->partsRefusal.empty()) { // not the number is refused
      llvm::consumeError(pair.takeError());
      return;
    }
    llvm::consumeError(trial.takeError());
    trial = std::move(pair);
  }

  void keepError(llvm::Error error, const Values &example, const CutCandidate &candidate) {
    if (firstError_) { // the first candidate is the likeliest: its error is the one to explain
      llvm::consumeError(std::move(error));
      return;
    }
    firstError_ = describe(std::move(error));
    failedExample_ = example;
    failedCandidate_ = candidate;
  }

  /// For inputs without a known batch dimension, or for which no way to cut runs.
  llvm::Error runUncut() {
    if (firstError_)
      return explainFailure();
    llvm::Expected<std::vector<c10::IValue>> results = run_({ownCopies(inputs_)});
    if (!results)
      return withArguments(results.takeError(), untried_, inputs_);
    CutWay way;
    way.trial.candidate = {CutDims(inputs_.size()), 0, 0, true};
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (options_.batchDimGiven[i])
        way.trial.candidate.dims[i] = cutOf(untried_.inputs[i]);
    way.trial.example = {{ownCopies(inputs_)}, {results->front()}};
    way.trial.refusal = "no argument has a dimension to cut";
    TRY(judgeWay(way, untried_, options_, runAll_));
    best_ = std::move(way);
    return llvm::Error::success();
  }

  /// The error of the first run that failed. The help says which dimension may be the batch, or
  /// which size the model needs.
  llvm::Error explainFailure() {
    const bool cut = options_.microBatches > 1;
    if (cut && !named_)
      if (const std::string why = reasonOfWhole(); !why.empty()) // says more than the model does
        return notCutError(why, whyUncut_.samplesInLists(), options_.microBatches);
    const std::string dims = cut ? suggestion(untried_) : "";
    llvm::Error error =
        withArguments(makeError(firstError_->code, firstError_->message, firstError_->help),
                      untried_, failedExample_);
    if (!dims.empty())
      return withSuggestion(std::move(error), dims);
    return explainFixedBatch(std::move(error), untried_, failedExample_, options_.batchDimGiven,
                             run_, inputs_);
  }

  /// See triedSuggestion.
  std::string suggestion(const Signature &signature) {
    const CutWay *best = best_ ? &*best_ : nullptr;
    if (options_.trustsSizes || (best && best->fit == CutFit::Equal))
      return "";
    return triedSuggestion(signature, {untried_, inputs_, options_.batchDimGiven, waysTried_, best},
                           [&](const CutCandidate &one) { return tryWay(one); });
  }

  /// The whole batch may run although its parts do not.
  std::string reasonOfWhole() {
    if (llvm::Error error = run_({ownCopies(inputs_)}).takeError()) {
      llvm::consumeError(std::move(error)); // then the error of the part is reported
      return "";
    }
    return whyUncut_.ofDims(failedCandidate_.dims, inputs_);
  }

  /// A note if another dimension fits as well and cuts more; empty: none does.
  llvm::Expected<std::string> noteOnFuller() {
    const auto &given = options_.batchDimGiven;
    if (named_ || options_.trustsSizes || !notCut_.empty() || best_->fit != CutFit::Equal)
      return std::string();
    const std::optional<CutCandidate> fuller =
        fullerCut(best_->trial.candidate, secondDimensions(untried_, inputs_, given), inputs_);
    std::optional<CutWay> way;
    if (fuller)
      way = TRY(tryWay(*fuller));
    const bool fits = way && way->fit == CutFit::Equal && way->allFollow();
    return fits ? noteOnFullerCut(best_->signature, way->signature) : std::string();
  }

  llvm::Expected<BatchDiscovery> finish(Signature &signature) {
    BatchDiscovery found;
    std::string fuller = TRY(noteOnFuller());
    if (notCut_.empty())
      found.suggestion = suggestion(best_->signature);
    signature = std::move(best_->signature);
    for (size_t l = 0; l < best_->checks.size(); ++l)
      found.shown.push_back(notCut_.empty() && best_->shows(l, options_.drawsRandom()));
    found.samplesInLists = !notCut_.empty() && whyUncut_.samplesInLists();
    found.notCut = std::move(notCut_);
    found.results = std::move(best_->checks);
    if (!found.notCut.empty()) {
      keepWhole(signature);
      for (ResultCheck &check : found.results)
        check = {ResultCheck::Equal::Yes, ""}; // there is one micro-batch
    }
    found.trial = std::move(best_->trial);
    if (found.notCut.empty()) {
      contradicted_ = TRY(checkLaterMicroBatches(found, signature, inputs_, options_, runAll_));
      TRY(checkDrawnLosses(found, signature, options_));
      noteMeanOfPair(found, signature, options_);
    }
    addNotes(found, signature, *best_, inputs_, options_,
             TRY(stateEffects(found, signature, options_, runAll_)));
    if (found.notCut.empty() && !tieWarning_.empty() && found.trial.candidate.dims == tieDims_)
      found.warnings.push_back(std::move(tieWarning_));
    if (named_ && found.notCut.empty())
      if (std::string why = listsBesideBatch(signature, inputs_, run_); !why.empty())
        found.warnings.push_back(why +
                                 ": every micro-batch gets all of it, so pass --microbatches 1");
    if (!fuller.empty())
      found.notes.push_back(std::move(fuller));
    if (found.notCut.empty() && found.trial.runs())
      if (std::string note = noteOnEntries(signature, found.trial.example.calls.front(),
                                           options_.batchDimGiven, run_);
          !note.empty())
        found.notes.push_back(std::move(note));
    return found;
  }

  const Signature &untried_;
  const Values &inputs_;
  const DiscoveryOptions &options_;
  const bool isWhole_; // the example is all of the inputs, not their first micro-batch
  ModelRuns runAll_;
  ModelRunner run_;
  const bool named_;
  WhyUncut whyUncut_;
  std::optional<c10::IValue> whole_; // result of the inputs as they are
  std::optional<CutWay> best_;
  std::vector<CutDims> waysTried_;
  CutDims tieDims_; // of a way that stays although one with fewer arguments fits better
  std::string tieWarning_, notCut_;
  bool contradicted_ = false;
  std::optional<ErrorText> firstError_; // of an example
  Values failedExample_;
  CutCandidate failedCandidate_;
};

} // namespace

llvm::Expected<BatchDiscovery> discoverBatch(Signature &signature, const Values &inputs,
                                             const DiscoveryOptions &options, ModelRuns runAll) {
  PIPEC_ASSERT(inputs.size() == signature.inputs.size() &&
                   options.batchDimGiven.size() == inputs.size(),
               "bound inputs");
  const Signature untried = signature;
  auto run = [&](std::vector<Values> calls) { return runOne(runAll, std::move(calls)); };
  Discoverer ofExample(untried, inputs, options, /*ofAll=*/false, runAll, run);
  llvm::Expected<BatchDiscovery> found = ofExample.discover(signature);
  if (found && ofExample.isContradicted()) {
    Signature other = untried;
    llvm::Expected<BatchDiscovery> again =
        Discoverer(untried, inputs, options, /*ofAll=*/true, runAll, run).discover(other);
    if (again && again->notCut.empty() && other.batchSymbolic) {
      signature = std::move(other);
      return again;
    }
    llvm::consumeError(again.takeError()); // the first micro-batch decides
  }
  if (found && !found->notCut.empty() && options.microBatches > 1)
    return notCutError(found->notCut, found->samplesInLists, options.microBatches);
  return found;
}

} // namespace pipec
