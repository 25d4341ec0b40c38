#include "ir/batch/discovery/JudgeWay.h"

#include "ir/TorchError.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/discovery/CheckResults.h"
#include "ir/batch/discovery/DrawnLoss.h"
#include "ir/batch/discovery/GivenMerges.h"
#include "ir/batch/discovery/MergeRules.h"
#include "ir/batch/discovery/RulesTrial.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/Try.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

constexpr int64_t kEqualParts[] = {1, 1}; // for rules that do not look at samples one by one

/// Discards the rules that other sizes or values contradict. Returns why sums may also be wrong;
/// empty: they were tried at all sizes.
std::string checkDoubtful(Signature &signature, CutTrial &trial, llvm::ArrayRef<size_t> doubtful,
                          ModelRuns runAll) {
  if (doubtful.empty())
    return "";
  const HalvesTrial tried = tryHalves(trial, runAll);
  for (const Halves &halves : tried.ran) {
    const auto checks = checkHalves(signature, halves, kEqualParts);
    for (size_t leaf : doubtful)
      if (!checks || (*checks)[leaf].equal == ResultCheck::Equal::No)
        signature.leaves[leaf].merge = {};
  }
  return tried.refusal.empty()
             ? ""
             : "it adds up over 5 = 3 + 2 samples, but batches of 6 and 4 do not run: " +
                   tried.refusal;
}

/// Sets the rule and the sizes of a result. Returns whether other sizes must confirm the rule.
bool findRule(CutWay &way, const TrialLeaves &leaves, size_t l, const DiscoveryOptions &options) {
  const CutTrial &trial = way.trial;
  OutputLeaf &leaf = way.signature.leaves[l];
  LeafEvidence evidence = evidenceOf(trial, leaves, l);
  evidence.drawsRandom = options.drawsRandom();
  way.isZero.push_back(
      llvm::all_of(evidence.seen, [](const auto &entry) { return isZeroOrEmpty(entry.second); }));
  leaf.merge =
      findMergeRule(evidence, trial.runs() ? std::nullopt : std::optional(trial.candidate.batch));
  leaf.tensor = specOver(evidence.seen, leaves.example.front()[l]);
  if (options.trains && evidence.drawsRandom)
    leaf.merge = ruleOfDrawnLoss(leaf);
  return trial.runs() && isDoubtful(evidence, leaf.merge);
}

llvm::Error judgeTrial(CutWay &way, const DiscoveryOptions &options, ModelRuns runAll) {
  CutTrial &trial = way.trial;
  Signature &signature = way.signature;
  setCut(signature, trial.candidate.dims);
  signature.batchSymbolic = trial.runs();
  signature.batchSize = trial.candidate.batch;
  if (!trial.runs())
    varyExample(trial, runAll);
  if (options.findsTree)
    describeResults(signature, trial);
  const TrialLeaves leaves = TRY(leavesOf(signature, trial));
  describeInputs(signature, trial);
  std::vector<size_t> doubtful;
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    if (findRule(way, leaves, l, options))
      doubtful.push_back(l);
  const std::string unconfirmed = checkDoubtful(signature, trial, doubtful, runAll);
  const RulesTrial others = tryRules(way, leaves, doubtful, options.drawsRandom(), runAll);
  TRY(giveMerges(signature, options.merges));
  way.checks = trial.runs() ? checkResults(signature, leaves, trial.notTried(options.drawsRandom()))
                            : checkDoubled(signature, trial, options.drawsRandom());
  doubtSums(way.checks, signature, doubtful, unconfirmed);
  takeChecks(way, others);
  doubtListedValues(way.checks, signature, options.listsValues);
  if (trial.runs() && options.valueDependentDraw().empty())
    way.mixing = crossTalk(signature, leaves, outputPaths(signature));
  way.fit = fitOf(way, givenLeaves(signature, options.merges));
  return llvm::Error::success();
}

} // namespace

llvm::Error judgeWay(CutWay &way, const Signature &untried, const DiscoveryOptions &options,
                     ModelRuns runAll) {
  way.signature = untried;
  return guardTorchError(ExitCode::Other, "comparing outputs of several batch sizes",
                         [&] { return judgeTrial(way, options, runAll); });
}

} // namespace pipec
