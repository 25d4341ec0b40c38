// Finds whether two changes of the arguments affect each other in a model's results. They do not if
// every result is a sum of one term that follows the first change and one that follows the second,
// and no row follows both.
#pragma once

#include "ir/batch/discovery/CutWay.h"

namespace pipec {

/// Whether `fuller` cuts each tensor of the example that `fewer` cuts, along the same dimension,
/// and others beside them.
bool cutsMore(const CutWay &fuller, const CutWay &fewer);

/// Whether the tensors that only `fuller` cuts affect what the model computes from those that both
/// cut. A table of prototypes does; a GAN's noise does not affect the loss of real samples, nor
/// does anything affect tensors that no result follows, such as flags of a branch. Nothing if no
/// run shows it: a run fails, no result follows the tensors that only `fuller` cuts, or a result
/// has whole numbers that change.
std::optional<bool> affectOthers(const CutWay &fuller, const CutWay &fewer, ModelRuns runAll);

/// Whether two samples of the first argument that is cut affect each other. Nothing: no run shows
/// it.
std::optional<bool> samplesInteract(const CutWay &way, ModelRuns runAll);

} // namespace pipec
