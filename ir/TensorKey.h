// Identity and overlap of tensors, decided by their memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace pipec {

/// Two keys are equal if the tensors are the same elements of memory with the same view. A
/// parameter and the result of its detach() have different keys. So do a tensor and its conjugate,
/// which share their elements.
using TensorKey =
    std::tuple<uintptr_t /*data*/, std::vector<int64_t> /*sizes*/, std::vector<int64_t> /*strides*/,
               int /*dtype*/, unsigned /*requires_grad, conjugate, negative*/>;
TensorKey keyOf(const at::Tensor &tensor);

/// First byte and one past the last byte of the tensor's elements. An empty tensor has no extent.
std::pair<uintptr_t, uintptr_t> extentOf(const at::Tensor &tensor);

/// One number per tensor, in order of first encounter. Two numbers are equal exactly if the tensors
/// overlap in memory, directly or through other tensors. -1 for undefined tensors.
std::vector<int64_t> storageIds(const std::vector<at::Tensor> &tensors);

} // namespace pipec
