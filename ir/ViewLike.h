// A tensor like another one, on other memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>

namespace pipec {

/// A tensor on `storage` from its element `offset` on, with the sizes, strides, dtype and lazy bits
/// (conjugate, negative) of `tensor`, without gradient. `tensor` is strided, not quantised. Throws
/// LibTorch's exceptions.
at::Tensor viewLike(const at::Tensor &tensor, const c10::Storage &storage, int64_t offset);

} // namespace pipec
