// The content of tensors as a digest.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace pipec {

/// sha256 (hex) of the elements in logical order; contiguous tensors are hashed where they lie.
/// Quantised and sparse tensors by their parts.
std::string tensorDigest(const at::Tensor &tensor);

/// A quick hash of the same bytes, for comparisons within one process.
uint64_t tensorHash(const at::Tensor &tensor);

} // namespace pipec
