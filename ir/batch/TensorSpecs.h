// Specs of tensors that ran, and what they are as a function of the batch size.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// dtype, sizes, strides of a tensor as a spec with constant dims.
TensorSpec specOf(const at::Tensor &tensor);
/// Its dtype alone; empty where specOf() knows nothing.
std::string dtypeOf(const at::Tensor &tensor);
/// Fits sizes and strides as a*B+b (a, b >= 0) over the specs seen at the batch sizes; a dimension
/// that fits no line is dynamic. `bytes` are those of the first entry; different dtypes or ranks
/// give an unknown spec.
TensorSpec fitSpec(llvm::ArrayRef<std::pair<int64_t, TensorSpec>> seen);

} // namespace pipec
