// Whether two changes of the arguments affect each other in what a model returns. They do not where
// each result is a sum of a term that follows the first and of one that follows the second, and has
// no row that follows both.
#pragma once

#include "ir/batch/discovery/CutWay.h"

namespace pipec {

/// Whether `fuller` cuts each tensor of the example that `fewer` cuts, along the same dimension,
/// and others beside them.
bool cutsMore(const CutWay &fuller, const CutWay &fewer);

/// Whether the tensors that only `fuller` cuts affect what the model makes of those that both cut.
/// A table of prototypes does; the noise of a GAN does not affect what the loss says of real
/// samples. Nothing: no run shows it, because some run fails, a result follows neither, or it has
/// values without fractions that change.
std::optional<bool> affectOthers(const CutWay &fuller, const CutWay &fewer, ModelRuns runAll);

/// Whether two samples of the first argument that is cut affect each other. Nothing: no run shows
/// it.
std::optional<bool> samplesInteract(const CutWay &way, ModelRuns runAll);

} // namespace pipec
