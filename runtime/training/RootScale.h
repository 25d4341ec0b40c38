// The gradient at which the backward of each micro-batch starts, so that gradients add up to those
// of the batch.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "runtime/TrainingOptions.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace pipec {

/// One number per micro-batch: n_k / N for a mean over samples, 1 for a sum. It is a float64, which
/// the caller rounds to the dtype of the loss. `memory`: a list of an earlier step, which is used
/// again.
std::vector<at::Tensor> rootScales(const std::vector<int64_t> &samples, LossReduction reduction,
                                   std::vector<at::Tensor> memory = {});

/// The gradient with which a backward starts, and the divisor of later sums: of a loss that is a
/// pair (sum, count) 1, because the count of the batch is known only after all forwards.
std::vector<at::Tensor> rootScalesOfSums(size_t microBatches, std::vector<at::Tensor> memory = {});

/// The gradient with which the backward of a loss of one element starts: its scale, with its shape
/// and dtype. `isLocal`: the host may copy to the loss's memory. Where it may not, the copy would
/// make the host wait for a device.
at::Tensor rootGradient(const at::Tensor &loss, const at::Tensor &scale, bool isLocal = true);

/// The loss of the batch: the losses times their scales, added in the order of micro-batches.
class LossSum {
public:
  void add(const at::Tensor &loss, const at::Tensor &scale);
  /// Divided by `count`, if there is one; 0 without micro-batches.
  double total(std::optional<double> count) const;

private:
  at::Tensor sum_;
};

/// Divides gradients in place, each by one number: the count of the batch.
void divideGradients(llvm::ArrayRef<at::Tensor> gradients, double count);

} // namespace pipec
