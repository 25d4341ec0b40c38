// Ways to cut later dimensions, as of x[height, width, channels, samples], and when they are tried.
#pragma once

#include "ir/batch/discovery/CutWay.h"
#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// The ways of laterDimensions() if these may fit better than `best` (null: none runs): samples
/// affect each other, and no norm or single number for the whole batch explains it; or the model
/// runs at one size, and not every result has a row per sample along the dimension that is cut.
/// `refused`: the example of some way does not run.
std::vector<CutCandidate> laterWays(const Signature &untried, llvm::ArrayRef<c10::IValue> inputs,
                                    const DiscoveryOptions &options, const CutWay *best,
                                    bool refused);

/// Whether such a way wins: samples are independent, and results have rows. If no other way runs,
/// some result has another number of rows than the argument that is cut: as many would be samples,
/// whose number the model fixes.
bool isBetterLater(const CutWay &way, const CutWay *best);

} // namespace pipec
