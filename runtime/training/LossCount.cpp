#include "runtime/training/LossCount.h"

#include "ir/TorchError.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <cmath>

namespace pipec {

llvm::Error checkLoss(const c10::IValue &value, bool anyTrained) {
  if (!value.isTensor() || !value.toTensor().defined())
    return failf(ExitCode::Usage, "expected the loss to be a tensor, got a {}", value.tagKind());
  if (value.toTensor().numel() != 1)
    return makeError(ExitCode::Usage,
                     fmt::format("expected a loss of one element, got one of shape [{}]",
                                 fmt::join(value.toTensor().sizes(), ", ")),
                     "return the mean or the sum of the micro-batch");
  if (anyTrained && !value.toTensor().requires_grad())
    return makeError(ExitCode::Usage,
                     "expected a loss with a gradient, got one that no trained parameter leads to",
                     "PyTorch refuses its backward, too; a branch without a loss may return the "
                     "sum of a parameter times 0");
  return llvm::Error::success();
}

llvm::Expected<double> lossCount(const c10::IValue &value, size_t microBatch) {
  if (value.isInt())
    return static_cast<double>(value.toInt());
  if (value.isDouble())
    return value.toDouble();
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().numel() != 1)
    return failf(ExitCode::Usage,
                 "micro-batch {}: expected the count of the loss to be a number, got a {}",
                 microBatch, value.tagKind());
  if (value.toTensor().requires_grad())
    return makeError(ExitCode::Usage,
                     fmt::format("micro-batch {}: expected a count of the loss without gradients, "
                                 "got one that requires them",
                                 microBatch),
                     "return count.detach() in the model");
  return guardTorch(ExitCode::Other, "the count of the loss",
                    [&] { return value.toTensor().item<double>(); });
}

llvm::Error pairWithReduction() {
  return makeError(ExitCode::Usage,
                   "--loss-reduction: expected a loss that is one number, got a pair (sum, count), "
                   "which is weighted by its counts",
                   "leave --loss-reduction out");
}

bool isUsableCount(double count) { return std::isfinite(count) && count > 0; }

llvm::Error unusableCount(double count) {
  return makeError(ExitCode::NotFinite,
                   fmt::format("expected counts of the loss that add up to more than 0 over all "
                               "micro-batches, got {}",
                               count),
                   "--on-nan skip leaves such a step out");
}

} // namespace pipec
