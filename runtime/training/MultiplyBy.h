// Products with a number as PyTorch's Python computes them.
#pragma once

#include <ATen/core/Tensor.h>

namespace pipec {

/// Multiplies in place by a number that keeps the precision in which the operator computes.
/// at::Tensor::mul_(Scalar) rounds it to the tensor's dtype first: 0.9 becomes 0.8984 for bfloat16.
/// Returns `tensor`.
at::Tensor &multiplyBy(at::Tensor &tensor, double factor);

} // namespace pipec
