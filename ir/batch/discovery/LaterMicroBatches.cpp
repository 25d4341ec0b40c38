#include "ir/batch/discovery/LaterMicroBatches.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/CheckResults.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

namespace pipec {

/// How many samples of a batch of `all` are compared.
static int64_t mostToCompare(int64_t all, const Values &inputs,
                             llvm::ArrayRef<int64_t> sizeConstants) {
  constexpr int64_t kSamples = 64, kMostSamples = 4096, kMostElements = int64_t(1) << 22;
  int64_t elements = 0;
  for (const c10::IValue &input : inputs)
    forEachTensor(input, [&](const at::Tensor &tensor) {
      elements += tensor.defined() ? tensor.numel() : 0;
    });
  const bool exceeds = llvm::any_of(sizeConstants, [&](int64_t constant) {
    return constant >= kSamples && constant < std::min(all, kMostSamples);
  });
  return exceeds && elements <= kMostElements ? kMostSamples : kSamples;
}

llvm::Expected<bool> checkLaterMicroBatches(BatchDiscovery &found, const Signature &signature,
                                            const Values &inputs, const DiscoveryOptions &options,
                                            ModelRuns runAll) {
  const int64_t all = batchSizeOr(0, signature, inputs),
                samples = std::min(all, mostToCompare(all, inputs, options.sizeConstants));
  if (options.microBatches < 2 || samples < 2 || options.drawsRandom() || !found.trial.runs() ||
      !found.trial.partsRefusal.empty())
    return false;
  // The micro-batches of this run, or the halves of what is taken of a large batch.
  const int64_t count = samples == all ? std::min(options.microBatches, all) : 2;
  std::vector<int64_t> parts;
  for (int64_t k = 0; k < count; ++k)
    parts.push_back(samples / count + (k < samples % count ? 1 : 0));
  const Halves own = tryOwnSamples(found.trial, inputs, parts, runAll);
  bool isContradicted = false;
  TRY(guardTorchVoid(ExitCode::Other, "comparing outputs of the batch", [&] {
    // Without checks the call itself says what does not run or is not merged.
    if (const auto checks = checkHalves(signature, own, parts)) {
      isContradicted = samples == all && contradict(signature, found.results, *checks,
                                                    givenLeaves(signature, options.merges));
      found.takeChecks(*checks);
    } else if (!options.writesState() && differInStructure(signature, own)) {
      found.warnings.push_back(
          "the structure of the result depends on the values of the batch, as the length of a "
          "list does, so results of micro-batches may not merge to that of the whole batch; "
          "--microbatches 1 gives that one");
    }
  }));
  return isContradicted;
}

} // namespace pipec
