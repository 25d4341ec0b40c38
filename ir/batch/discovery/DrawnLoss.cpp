#include "ir/batch/discovery/DrawnLoss.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/GivenMerges.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/plan/LossLeaf.h"

namespace pipec {

namespace {

using Kind = MergeRule::Kind;
using Equal = ResultCheck::Equal;

constexpr const char *kCalm = "with dropout off"; // in a report

bool isKnownLoss(const OutputLeaf &leaf) {
  return leaf.tensor.known && hasOneElement(leaf.tensor) &&
         llvm::StringRef(leaf.tensor.dtype).contains("float");
}

std::vector<Values> copiesOf(const std::vector<Values> &calls) {
  std::vector<Values> copies;
  for (const Values &call : calls)
    copies.push_back(ownCopies(call));
  return copies;
}

} // namespace

Halves runWithoutDropout(const CutTrial &trial, ModelRuns runAll) {
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

MergeRule ruleOfDrawnLoss(const OutputLeaf &leaf) {
  return isKnownLoss(leaf) && leaf.merge.kind == Kind::Sum ? MergeRule{.kind = Kind::Mean, .dim = 0}
                                                           : leaf.merge;
}

llvm::Error checkDrawnLosses(BatchDiscovery &found, Signature &signature,
                             const DiscoveryOptions &options) {
  if (!options.trains || !options.withoutDropout || !options.drawsRandom() ||
      !found.trial.notTried(/*drawsRandom=*/false).empty())
    return llvm::Error::success();
  const bool isPair = mayBePair(signature);
  const std::vector<bool> given = givenLeaves(signature, options.merges);
  std::vector<size_t> tried;
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    if (const Kind kind = signature.leaves[l].merge.kind;
        !given[l] && (isPair || (isKnownLoss(signature.leaves[l]) &&
                                 (kind == Kind::Mean || kind == Kind::List))))
      tried.push_back(l);
  if (tried.empty())
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Other, "comparing losses without dropout", [&] {
    const Halves halves = runWithoutDropout(found.trial, options.withoutDropout);
    Signature means = signature, sums = signature;
    for (size_t l : tried) {
      if (isKnownLoss(signature.leaves[l])) // a count has no mean
        means.leaves[l].merge = {.kind = Kind::Mean, .dim = 0};
      sums.leaves[l].merge = {.kind = Kind::Sum, .dim = 0};
    }
    const auto ofMeans = checkHalves(means, halves, kPartSamples);
    const auto ofSums = checkHalves(sums, halves, kPartSamples);
    for (size_t l : tried) {
      if (!ofMeans || !ofSums || (*ofSums)[l].equal == Equal::NotTried)
        continue;
      MergeRule &rule = signature.leaves[l].merge;
      if (isKnownLoss(signature.leaves[l]) && (*ofMeans)[l].equal == Equal::Yes) {
        rule = means.leaves[l].merge;
        found.results[l] = {Equal::Yes, kCalm};
        found.shown[l] = isPair;
      } else if ((*ofSums)[l].equal == Equal::Yes) {
        rule = sums.leaves[l].merge;
        found.results[l] = {Equal::Yes, kCalm};
        found.shown[l] = true;
      } else if (rule.kind == Kind::Mean && !isPair) { // of a pair no mean is taken
        found.results[l] = {Equal::No, fmt::format("{}: {}", kCalm, (*ofMeans)[l].reason)};
      }
    }
  });
}

} // namespace pipec
