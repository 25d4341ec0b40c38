// Finds the dimension of the samples if the result is a loss, which has no rows that show it.
#pragma once

#include "ir/batch/discovery/CutWay.h"
#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// Whether rows along `best` affect each other in a loss, as the steps of a sequence do, and no
/// batch norm explains it, of a model that draws random numbers: its results are not compared. It
/// runs without dropout for this.
bool hidesTime(const CutWay &best, const DiscoveryOptions &options, ModelRuns runAll);

/// Whether rows along `way` do not affect each other in a loss, but those along `best` do. False
/// without `best`.
bool hasSamplesOfLoss(const CutWay &way, const CutWay *best, const DiscoveryOptions &options,
                      ModelRuns runAll);

} // namespace pipec
