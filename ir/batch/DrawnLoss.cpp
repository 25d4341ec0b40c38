#include "ir/batch/DrawnLoss.h"

#include "ir/TorchError.h"
#include "ir/batch/GivenMerges.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/TrialSpecs.h"
#include "ir/plan/LossLeaf.h"
#include "ir/values/Values.h"

namespace pipec {

namespace {

using Kind = MergeRule::Kind;
using Equal = ResultCheck::Equal;

bool mayBeLoss(const OutputLeaf &leaf) {
  return leaf.tensor.known && leaf.tensor.shape.empty() &&
         llvm::StringRef(leaf.tensor.dtype).contains("float");
}

std::vector<Values> copiesOf(const std::vector<Values> &calls) {
  std::vector<Values> copies;
  for (const Values &call : calls)
    copies.push_back(ownCopies(call));
  return copies;
}

/// The whole batch of the trial and its parts, run without dropout. What does not run has no
/// results.
Halves withoutDropout(const CutTrial &trial, ModelRuns runAll) {
  std::vector<llvm::Expected<Values>> results =
      runAll({copiesOf(trial.whole.calls), copiesOf(trial.parts.calls)}, {/*deciding=*/1});
  Halves halves{{trial.whole.calls, {}}, {trial.parts.calls, {}}};
  for (auto [result, into] : {std::pair(&results[0], &halves.whole), {&results[1], &halves.parts}})
    if (*result)
      into->results = std::move(**result);
    else
      llvm::consumeError(result->takeError());
  return halves;
}

} // namespace

MergeRule ruleOfDrawnLoss(const OutputLeaf &leaf) {
  return mayBeLoss(leaf) && leaf.merge.kind == Kind::Sum ? MergeRule{.kind = Kind::Mean, .dim = 0}
                                                         : leaf.merge;
}

llvm::Error checkDrawnLosses(BatchDiscovery &found, Signature &signature,
                             const DiscoveryOptions &options) {
  // A pair of a sum and its count has no mean.
  if (!options.trains || !options.withoutDropout || !options.drawsRandom() ||
      !found.trial.notTried(/*drawsRandom=*/false).empty() || mayBePair(signature))
    return llvm::Error::success();
  const std::vector<bool> given = givenLeaves(signature, options.merges);
  std::vector<size_t> losses;
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    if (mayBeLoss(signature.leaves[l]) && signature.leaves[l].merge.kind == Kind::Mean && !given[l])
      losses.push_back(l);
  if (losses.empty())
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Other, "comparing losses without dropout", [&] {
    const Halves halves = withoutDropout(found.trial, options.withoutDropout);
    Signature sums = signature;
    for (size_t l : losses)
      sums.leaves[l].merge.kind = Kind::Sum;
    const auto means = checkHalves(signature, halves, kPartSamples);
    const auto added = checkHalves(sums, halves, kPartSamples);
    for (size_t l : losses) {
      if (!means || !added || (*means)[l].equal == Equal::NotTried)
        continue;
      const bool isMean = (*means)[l].equal == Equal::Yes;
      const bool isSum = !isMean && (*added)[l].equal == Equal::Yes;
      if (isSum) {
        signature.leaves[l].merge.kind = Kind::Sum;
        found.shown[l] = true;
      }
      found.results[l] = isMean || isSum
                             ? ResultCheck{Equal::Yes, "with dropout off"}
                             : ResultCheck{Equal::No, "with dropout off: " + (*means)[l].reason};
    }
  });
}

} // namespace pipec
