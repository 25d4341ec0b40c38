// The content of tensors as a digest.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace pipec {

/// sha256 (hex) of the elements in logical order; contiguous tensors are hashed where they lie.
/// Quantised and sparse tensors by their parts.
std::string tensorDigest(const at::Tensor &tensor);

/// The memory that tensorDigest hashes, where the tensor's own memory is just that.
std::optional<llvm::StringRef> digestedInPlace(const at::Tensor &tensor);

/// Of the elements, without gaps; of a sparse tensor those of its parts.
int64_t byteCount(const at::Tensor &tensor);

/// Whether both are plain tensors without gaps of the same dtype, sizes, strides and requires_grad,
/// and equal byte for byte. False says nothing: they are not compared further. Of a copy, that is
/// where one's memory is known to have been written from the other's, only the ends are compared.
bool haveSameBits(const at::Tensor &a, const at::Tensor &b, bool copy = false);

/// A quick hash of the same bytes, for comparisons within one process.
uint64_t tensorHash(const at::Tensor &tensor);

} // namespace pipec
