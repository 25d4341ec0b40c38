// What test runs of a few samples cannot show: operators that relate samples only for some data or
// only in large batches.
#pragma once

#include "ir/Model.h"
#include "ir/batch/discovery/Discovery.h"
#include "passes/PassContext.h"

namespace pipec {

/// After discoverBatch, of a model whose batch is cut. Tries batch sizes around the constants that
/// the model compares sizes with, and a batch of 33 samples, if that is cheap and the model draws
/// no random numbers: results that differ then are warnings, and are no longer said to equal the
/// whole batch's. Adds at most one note with what no run shows. `norms`: of DiscoveryOptions.
void noteSampleRelations(Model &model, BatchDiscovery &found, PassContext &context,
                         ModelRuns runAll, bool drawsRandom, const std::string &norms);

} // namespace pipec
