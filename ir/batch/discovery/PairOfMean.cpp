#include "ir/batch/discovery/PairOfMean.h"

#include "ir/batch/MergeOutputs.h"
#include "ir/batch/discovery/GivenMerges.h"
#include "ir/plan/LossLeaf.h"

#include <ATen/core/Tensor.h>

#include <cmath>

namespace pipec {

namespace {

/// The first result of each call; empty if one is no number.
std::vector<double> firstResults(const Signature &signature, const Values &results) {
  std::vector<double> numbers;
  for (const c10::IValue &result : results) {
    llvm::Expected<Values> leaves = flattenOutputs(signature, result);
    if (!leaves) {
      llvm::consumeError(leaves.takeError());
      return {};
    }
    const c10::IValue &first = leaves->front();
    if (!first.isTensor() || !first.toTensor().defined() || first.toTensor().numel() != 1)
      return {};
    numbers.push_back(first.toTensor().item<double>());
  }
  return numbers;
}

} // namespace

void noteMeanOfPair(BatchDiscovery &found, Signature &signature, const DiscoveryOptions &options) {
  if (!options.trains || !mayBePair(signature) || found.shown[0] ||
      givenLeaves(signature, options.merges)[0])
    return;
  const std::vector<double> whole = firstResults(signature, found.trial.whole.results),
                            parts = firstResults(signature, found.trial.parts.results);
  if (whole.size() != 1 || parts.size() != std::size(kPartSamples))
    return;
  double sum = 0, weighted = 0, samples = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const auto of = static_cast<double>(kPartSamples[k]);
    sum += parts[k];
    weighted += of * parts[k];
    samples += of;
  }
  const double toMean = std::abs(whole.front() - weighted / samples),
               toSum = std::abs(whole.front() - sum);
  if (std::isfinite(toSum) && 2 * toMean < toSum) {
    signature.leaves[0].merge = {.kind = MergeRule::Kind::Mean, .dim = 0};
    found.shown[0] = true;
  }
}

} // namespace pipec
