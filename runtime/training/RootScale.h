// Where the way back of each micro-batch starts, so that gradients add up to those of the batch.
#pragma once

#include "runtime/TrainingOptions.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace pipec {

/// One number per micro-batch: the float32 of n_k / N for a mean over samples, 1 for a sum.
std::vector<at::Tensor> rootScales(const std::vector<int64_t> &samples, LossReduction reduction);

/// The loss of the batch: the losses times their scales, added in the order of micro-batches.
double totalLoss(const std::vector<at::Tensor> &losses, const std::vector<at::Tensor> &scales);

} // namespace pipec
