// Tensors for programs that do not include LibTorch's headers.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/Tensor.h>

namespace pipec {

/// PyTorch's name of the dtype. Errors: Unsupported for a tensor without a dense view (quantised,
/// sparse).
llvm::Expected<std::string> viewableDtype(const at::Tensor &tensor);
/// A dense, row-major tensor on the CPU. Errors: Other if it cannot be copied from its device.
llvm::Expected<at::Tensor> plainTensor(const at::Tensor &tensor);

} // namespace pipec
