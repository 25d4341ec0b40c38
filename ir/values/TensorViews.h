// Tensors as programs without LibTorch's headers see them.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/Tensor.h>

namespace pipec {

/// The dtype as PyTorch names it. Errors: Unsupported for a tensor that has no dense view
/// (quantised, sparse).
llvm::Expected<std::string> viewableDtype(const at::Tensor &tensor);
/// Dense and row-major, on the CPU. Errors: Other when it cannot be copied from its device.
llvm::Expected<at::Tensor> plainTensor(const at::Tensor &tensor);

} // namespace pipec
