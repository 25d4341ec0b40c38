// Inputs whose sizes disagree, although micro-batches of them run.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// An argument that is given whole may have the size of a micro-batch by chance: `x + y` of x[4,8]
/// and y[2,8] runs with two samples of x. `signature` says how `inputs` are cut, `part` is the
/// number of samples of a micro-batch. Errors: Usage naming both sizes, if the model does not run
/// on the inputs, but does as soon as such an argument has a row per sample. Arguments that the
/// user named (`given`) are left alone; LibTorch's errors.
llvm::Error refuseFitByChance(const Signature &signature, const Values &inputs, int64_t part,
                              const std::vector<bool> &given, ModelRunner run);

} // namespace pipec
