// The content of tensors as a digest.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace pipec {

/// sha256 (hex) of the elements in logical order. Contiguous tensors are hashed in place. Quantised
/// and sparse tensors are hashed by their parts.
std::string tensorDigest(const at::Tensor &tensor);

/// The memory that tensorDigest hashes, or nothing if it differs from the tensor's own memory.
std::optional<llvm::StringRef> digestedInPlace(const at::Tensor &tensor);

/// Number of bytes of the elements, without gaps. For a sparse tensor: of its parts.
int64_t byteCount(const at::Tensor &tensor);

/// Whether both are plain tensors without gaps, with the same dtype, sizes, strides and
/// requires_grad, and equal byte for byte. False means "not equal, or not compared". With `copy`,
/// one tensor's memory is known to have been written from the other's, so only the ends are
/// compared.
bool haveSameBits(const at::Tensor &a, const at::Tensor &b, bool copy = false);

/// A fast hash of the same bytes, for comparisons within one process.
uint64_t tensorHash(const at::Tensor &tensor);

} // namespace pipec
