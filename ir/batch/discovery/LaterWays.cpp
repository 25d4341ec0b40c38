#include "ir/batch/discovery/LaterWays.h"

#include "ir/plan/PlanNames.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

std::vector<CutCandidate> laterWays(const Signature &untried, llvm::ArrayRef<c10::IValue> inputs,
                                    const DiscoveryOptions &options, const CutWay *best,
                                    bool refused) {
  if (!best && !refused)
    return {};
  const bool oneSize = !best || best->fit == CutFit::OneSize;
  if (best && oneSize && !best->turnsBatch() &&
      llvm::none_of(best->signature.leaves,
                    [](const OutputLeaf &leaf) { return hasSizes(leaf) && !hasRows(leaf); }))
    return {};
  if (!oneSize && (!best->mayBeTime() || !options.norms.empty() ||
                   llvm::none_of(best->signature.leaves, hasSizes)))
    return {};
  return laterDimensions(untried, inputs, options.batchDimGiven, /*ofFeatures=*/oneSize);
}

bool isBetterLater(const CutWay &way, const CutWay *best) {
  if (way.fit != CutFit::Equal || !isBetterSecond(way, nullptr))
    return false;
  const auto cut =
      llvm::find_if(way.signature.inputs, [](const InputSpec &one) { return isCut(one); });
  return best || (cut != way.signature.inputs.end() && !cut->tensor.shape.empty() &&
                  llvm::any_of(way.signature.leaves, [&](const OutputLeaf &leaf) {
                    return hasSizes(leaf) && leaf.tensor.shape[0] != cut->tensor.shape[0];
                  }));
}

} // namespace pipec
