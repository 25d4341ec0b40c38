// What a trial of one way to cut says about every result of the model.
#pragma once

#include "ir/batch/discovery/CutWay.h"
#include "ir/batch/discovery/Discovery.h"

namespace pipec {

/// Sets everything of `way` but its trial: `untried` with the batch, the sizes and the merge rules
/// that the trial shows, checks, mixing and fit. Runs the model again if rules are doubtful.
/// Errors: those of giveMerges(), and of comparing results that no tensor operator accepts.
llvm::Error judgeWay(CutWay &way, const Signature &untried, const DiscoveryOptions &options,
                     ModelRuns runAll);

} // namespace pipec
