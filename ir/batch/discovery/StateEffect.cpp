#include "ir/batch/discovery/StateEffect.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/DrawnLoss.h"
#include "ir/batch/discovery/Rounding.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/values/CompareValues.h"

namespace pipec {

namespace {

bool comparesCalmRuns(const DiscoveryOptions &options) {
  return options.drawsRandom() && options.withoutDropout;
}

/// A whole batch and its parts, which ran one after the other. Without results: none ran.
Halves triedHalves(const CutTrial &trial, const DiscoveryOptions &options) {
  if (trial.parts.results.empty())
    return trial.doubled;
  if (comparesCalmRuns(options))
    return runWithoutDropout(trial, options.withoutDropout);
  return {trial.whole, trial.parts};
}

/// The parts, each as the first call of a copy. Without results: one of them does not run so.
Experiment runAlone(const Experiment &parts, ModelRuns runAll) {
  std::vector<std::vector<Values>> later;
  for (const Values &call : llvm::ArrayRef(parts.calls).drop_front())
    later.push_back({ownCopies(call)});
  Experiment alone{parts.calls, {parts.results.front()}};
  for (llvm::Expected<Values> &result : runAll(std::move(later), {})) {
    if (result)
      alone.results.push_back(result->front());
    else
      llvm::consumeError(result.takeError());
  }
  if (alone.results.size() != parts.results.size())
    alone.results.clear();
  return alone;
}

/// Equal calls run the same kernels, so that only what other threads add up in another order
/// differs without state.
bool areEqual(const c10::IValue &alone, const c10::IValue &inOrder) {
  constexpr double kOfRounding = 1e-2;
  return compare(inOrder, alone, 0.0, toleranceFor(inOrder) * kOfRounding).equal;
}

} // namespace

llvm::Expected<std::vector<StateEffect>> stateEffects(const BatchDiscovery &found,
                                                      const Signature &signature,
                                                      const DiscoveryOptions &options,
                                                      ModelRuns runAll) {
  const CutTrial &trial = found.trial;
  const bool differs = llvm::any_of(found.results, [](const ResultCheck &check) {
    return check.equal == ResultCheck::Equal::No;
  });
  if (!options.writesState() || !differs)
    return std::vector<StateEffect>(signature.leaves.size(), StateEffect::None);
  if (!options.norms.empty())
    return std::vector<StateEffect>(signature.leaves.size(), StateEffect::Some);
  return guardTorch(ExitCode::Other, "comparing micro-batches with and without state", [&] {
    std::vector<StateEffect> effects(signature.leaves.size(), StateEffect::Some);
    const Halves inOrder = triedHalves(trial, options);
    if (inOrder.whole.results.empty() || inOrder.parts.results.empty())
      return effects;
    const ModelRuns runs = comparesCalmRuns(options) ? options.withoutDropout : runAll;
    const Halves alone{inOrder.whole, runAlone(inOrder.parts, runs)};
    const int64_t batch = trial.candidate.batch, doubled[] = {batch, batch};
    const bool isDoubled = trial.parts.results.empty();
    const auto checks = checkHalves(
        signature, alone, isDoubled ? llvm::ArrayRef(doubled) : llvm::ArrayRef(kPartSamples));
    llvm::Expected<std::vector<Values>> before = leavesOf(signature, inOrder.parts);
    if (!checks || !before) { // results of another structure, or a part that needs the first
      llvm::consumeError(before.takeError());
      return effects;
    }
    const std::vector<Values> after = llvm::cantFail(leavesOf(signature, alone.parts));
    for (size_t l = 0; l < effects.size(); ++l) {
      bool isSame = true;
      for (size_t k = 0; k < after.size(); ++k)
        isSame = isSame && areEqual(after[k][l], (*before)[k][l]);
      if (isSame)
        effects[l] = StateEffect::None;
      else if ((*checks)[l].equal == ResultCheck::Equal::Yes)
        effects[l] = StateEffect::All;
    }
    return effects;
  });
}

} // namespace pipec
