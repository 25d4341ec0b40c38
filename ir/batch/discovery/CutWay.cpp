#include "ir/batch/discovery/CutWay.h"

#include "llvm/ADT/STLExtras.h"

namespace pipec {

bool follows(const OutputLeaf &leaf) {
  return leaf.merge.kind != MergeRule::Kind::Same && leaf.merge.kind != MergeRule::Kind::List;
}
bool hasRows(const OutputLeaf &leaf) {
  return leaf.merge.kind == MergeRule::Kind::Concat || leaf.merge.kind == MergeRule::Kind::Join;
}
bool hasSizes(const OutputLeaf &leaf) { return !leaf.tensor.shape.empty(); }

bool CutWay::mayBeTime() const {
  if (fit == CutFit::Reduced || (fit == CutFit::Unrelated && trial.candidate.batch > 1))
    return true;
  bool mixes = !mixing.empty() || llvm::none_of(signature.leaves, hasRows);
  for (size_t l = 0; l < checks.size(); ++l)
    mixes = mixes || (hasRows(signature.leaves[l]) && checks[l].equal == ResultCheck::Equal::No);
  return fit == CutFit::Unequal && mixes;
}

bool CutWay::turnsBatch() const {
  bool any = false, along = false;
  for (const OutputLeaf &leaf : signature.leaves) {
    if (leaf.merge.kind != MergeRule::Kind::Concat)
      continue;
    any = true;
    for (const InputSpec &input : signature.inputs)
      along = along || input.batchDim == leaf.merge.dim ||
              llvm::any_of(input.parts,
                           [&](const PartDim &part) { return part.dim == leaf.merge.dim; });
  }
  return any && !along;
}

bool CutWay::allFollow() const {
  return llvm::any_of(signature.leaves, follows) &&
         llvm::all_of(signature.leaves,
                      [](const OutputLeaf &leaf) { return hasRows(leaf) || !hasSizes(leaf); });
}

bool CutWay::shows(size_t leaf, bool drawsRandom) const {
  const ResultCheck &check = checks[leaf];
  return !isZero[leaf] && trial.runs() && trial.partsRefusal.empty() && !drawsRandom &&
         (check.equal == ResultCheck::Equal::Yes ||
          (check.equal == ResultCheck::Equal::NotTried && !trial.distinct));
}

bool CutWay::mergesAll() const {
  return llvm::none_of(signature.leaves, [](const OutputLeaf &leaf) {
    return leaf.merge.kind == MergeRule::Kind::List;
  });
}

bool isBetterSecond(const CutWay &way, const CutWay *best) {
  if (!way.allFollow() || llvm::none_of(way.signature.leaves, hasRows))
    return false;
  return way.fit == CutFit::Equal || (way.fit == CutFit::Unequal && way.mergesAll() && best &&
                                      best->fit == CutFit::Unequal && !best->mergesAll());
}

CutFit fitOf(const CutWay &way, const std::vector<bool> &given) {
  const Signature &signature = way.signature;
  if (!way.trial.runs())
    return CutFit::OneSize;
  if (!way.trial.partsRefusal.empty())
    return CutFit::NoParts;
  if (llvm::none_of(signature.leaves, follows) && llvm::any_of(signature.leaves, hasSizes))
    return CutFit::Unrelated;
  bool equal = way.mixing.empty();
  for (size_t l = 0; l < given.size(); ++l)
    equal = equal && (given[l] || way.checks[l].equal != ResultCheck::Equal::No);
  if (!equal)
    return CutFit::Unequal;
  return llvm::any_of(signature.leaves, hasRows) || llvm::none_of(signature.leaves, hasSizes)
             ? CutFit::Equal
             : CutFit::Reduced;
}

} // namespace pipec
