#include "ir/batch/discovery/RulesTrial.h"

#include "ir/batch/discovery/MergeRules.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/batch/discovery/TrialValues.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>

#include <cmath>

namespace pipec {

namespace {

using Kind = MergeRule::Kind;
using Equal = ResultCheck::Equal;

constexpr int64_t kEqualParts[] = {1, 1}; // for rules that do not look at samples one by one

bool isFraction(const c10::IValue &value) {
  return value.isDouble() ||
         (value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point());
}

bool isFinite(const c10::IValue &value) {
  if (value.isDouble())
    return std::isfinite(value.toDouble());
  return !isFraction(value) || value.toTensor().layout() != at::kStrided ||
         value.toTensor().isfinite().all().item<bool>();
}

bool isReduced(const MergeRule &rule) { return rule.kind == Kind::Sum || rule.kind == Kind::Mean; }

/// Whether the whole batch and its parts give only 0, or something that is not finite.
bool showsNothing(const MergeRule &rule, const TrialLeaves &leaves, size_t leaf) {
  if (leaves.whole.empty() || rule.kind == Kind::Concat || rule.kind == Kind::Join)
    return false;
  bool zero = true, finite = true;
  for (const std::vector<Values> *calls : {&leaves.whole, &leaves.parts})
    for (const Values &call : *calls) {
      zero = zero && isZeroOrEmpty(call[leaf]);
      finite = finite && isFinite(call[leaf]);
    }
  return !finite || (zero && isReduced(rule));
}

/// What the runs say of a result with the rule that the signature has. NotTried: nothing.
ResultCheck checkOf(const Signature &signature, llvm::ArrayRef<Halves> ran, size_t leaf) {
  ResultCheck found;
  for (const Halves &halves : ran) {
    const auto checks = checkHalves(signature, halves, kEqualParts);
    if (!checks || (*checks)[leaf].equal == Equal::NotTried)
      continue;
    found = (*checks)[leaf];
    if (found.equal == Equal::No)
      return found;
  }
  return found;
}

/// Sets the first rule that the runs confirm, or the one for none.
void decide(Signature &signature, llvm::ArrayRef<Halves> ran, size_t leaf,
            const c10::IValue &example, bool anyRule) {
  MergeRule &rule = signature.leaves[leaf].merge;
  const MergeRule before = rule;
  const ResultCheck asBefore = checkOf(signature, ran, leaf);
  if (asBefore.equal != Equal::No)
    return;
  if (anyRule)
    for (Kind kind : {Kind::Mean, Kind::Sum, Kind::Same}) {
      rule = {.kind = kind};
      if (!(rule == before) && (kind != Kind::Mean || isFraction(example)) &&
          checkOf(signature, ran, leaf).equal == Equal::Yes)
        return;
    }
  const bool isLoss = example.isTensor() && isFraction(example) && example.toTensor().dim() == 0;
  rule = {.kind = isLoss ? Kind::Mean : Kind::List};
}

} // namespace

RulesTrial tryRules(CutWay &way, const TrialLeaves &leaves, llvm::ArrayRef<size_t> doubtful,
                    bool drawsRandom, ModelRuns runAll) {
  CutTrial &trial = way.trial;
  RulesTrial tried;
  if (!trial.runs() || !trial.partsRefusal.empty() || drawsRandom)
    return tried;
  Signature &signature = way.signature;
  const bool equalLabels = hasEqualLabels(trial.example.calls.front(), trial.candidate.dims);
  std::vector<size_t> unknown;
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    const MergeRule &rule = signature.leaves[l].merge;
    if (showsNothing(rule, leaves, l))
      unknown.push_back(l);
    else if (!equalLabels || !(isReduced(rule) || llvm::is_contained(doubtful, l)))
      continue;
    tried.leaves.push_back(l);
  }
  if (tried.leaves.empty())
    return tried;
  tried.ran = tryOtherValues(trial, /*moves=*/!unknown.empty(), runAll);
  for (size_t l : tried.leaves)
    decide(signature, tried.ran, l, leaves.example.front()[l], llvm::is_contained(unknown, l));
  return tried;
}

void takeChecks(CutWay &way, const RulesTrial &trial) {
  for (size_t l : trial.leaves) {
    const ResultCheck check = checkOf(way.signature, trial.ran, l);
    ResultCheck &known = way.checks[l];
    if (known.equal == Equal::No || check.equal == Equal::NotTried)
      continue;
    if (check.equal == Equal::No || known.equal == Equal::NotTried)
      known = check;
    way.isZero[l] = way.isZero[l] && known.equal != Equal::Yes;
  }
}

} // namespace pipec
