// The norm of all gradients, and clipping by it, as torch.nn.utils.clip_grad_norm_ computes them.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/Tensor.h>

namespace pipec {

/// The 2-norm of one gradient.
at::Tensor gradientNorm(const at::Tensor &gradient);
/// The norm of all gradients from the norms of each; 0 for none. The order of the norms affects the
/// last bits.
at::Tensor totalNorm(llvm::ArrayRef<at::Tensor> norms);
/// The factor for gradients with which their total norm is at most `most`.
at::Tensor clipFactor(const at::Tensor &totalNorm, double most);
/// Multiplies gradients in place.
void clipGradients(llvm::ArrayRef<at::Tensor> gradients, const at::Tensor &factor);

} // namespace pipec
