// The loss of an evaluation, for pipelines and references.
#pragma once

#include "ir/plan/LossLeaf.h"
#include "runtime/Pipeline.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Sets loss and count of `result` from the leaves of its micro-batches, as a training step
/// combines them. A sum whose total count is 0 has no mean: its loss is NaN. Errors: those of
/// lossCount. Throws LibTorch's exceptions.
llvm::Error addLoss(const LossLeaves &which, const std::vector<std::vector<c10::IValue>> &leaves,
                    const std::vector<int64_t> &samples, const TrainingOptions &options,
                    Evaluation &result);

} // namespace pipec
