#include "ir/batch/discovery/SamplesOfLoss.h"

#include "ir/batch/discovery/Interaction.h"

namespace pipec {

static bool isLoss(const CutWay &way) {
  return way.allFollow() && llvm::none_of(way.signature.leaves, hasRows);
}

static ModelRuns calmRuns(const DiscoveryOptions &options, ModelRuns runAll) {
  return options.drawsRandom() ? options.withoutDropout : runAll;
}

/// Also false if a batch norm explains it.
static bool hasMixedLoss(const CutWay &way, const DiscoveryOptions &options, ModelRuns runAll) {
  const bool canRun = !options.drawsRandom() || (options.trains && options.withoutDropout);
  return canRun && options.norms.empty() && isLoss(way) &&
         samplesInteract(way, calmRuns(options, runAll)) == true;
}

bool hidesTime(const CutWay &best, const DiscoveryOptions &options, ModelRuns runAll) {
  return best.fit == CutFit::Equal && options.drawsRandom() && hasMixedLoss(best, options, runAll);
}

bool hasSamplesOfLoss(const CutWay &way, const CutWay *best, const DiscoveryOptions &options,
                      ModelRuns runAll) {
  const bool draws = options.drawsRandom(); // then no result was compared
  const bool isShown = draws || llvm::any_of(way.checks, [](const ResultCheck &check) {
                         return check.equal == ResultCheck::Equal::Yes;
                       });
  return best && isShown && way.fit == CutFit::Equal &&
         best->fit == (draws ? CutFit::Equal : CutFit::Unequal) && isLoss(way) &&
         hasMixedLoss(*best, options, runAll) &&
         samplesInteract(way, calmRuns(options, runAll)) == false;
}

} // namespace pipec
