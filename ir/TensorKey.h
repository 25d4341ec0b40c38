// When are two tensors one? Identity and overlap of tensors by their memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace pipec {

/// Equal keys: the very same elements of memory seen the same way. A parameter and what its
/// detach() gave are two; so are a tensor and its conjugate, which share their elements.
using TensorKey =
    std::tuple<uintptr_t /*data*/, std::vector<int64_t> /*sizes*/, std::vector<int64_t> /*strides*/,
               int /*dtype*/, unsigned /*requires_grad, conjugate, negative*/>;
TensorKey keyOf(const at::Tensor &tensor);

/// First and one past the last byte that the tensor's elements touch; empty tensors touch none.
std::pair<uintptr_t, uintptr_t> extentOf(const at::Tensor &tensor);

/// A number per tensor, equal exactly when their memory overlaps (transitively), in order of first
/// encounter. -1 for undefined tensors.
std::vector<int64_t> storageIds(const std::vector<at::Tensor> &tensors);

} // namespace pipec
