#include "ir/TensorBytes.h"

#include "ir/support/Sha256.h"
#include "llvm/Support/xxhash.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>
#include <future>

namespace pipec {

namespace {

at::Tensor dense(const at::Tensor &tensor) {
  at::Tensor plain = tensor.detach();
  if (plain.is_quantized())
    plain = plain.int_repr();
  if (plain.layout() != at::kStrided)
    plain = plain.to_dense();
  if (plain.is_conj())
    plain = plain.resolve_conj();
  if (plain.is_neg())
    plain = plain.resolve_neg();
  return plain.to(at::kCPU).contiguous();
}

llvm::StringRef bytesOf(const at::Tensor &contiguous) {
  return {static_cast<const char *>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

/// Large memory is compared in two halves, on two threads, because mapping the pages takes most of
/// the time.
bool equalBytes(const char *a, const char *b, size_t n) {
  constexpr size_t kLarge = size_t(16) << 20;
  if (n < kLarge) // empty tensors may have no memory at all
    return n == 0 || std::memcmp(a, b, n) == 0;
  const size_t half = n / 2;
  std::future<bool> first =
      std::async(std::launch::async, [=] { return std::memcmp(a, b, half) == 0; });
  const bool second = std::memcmp(a + half, b + half, n - half) == 0;
  return first.get() && second;
}

bool equalEnds(const char *a, const char *b, size_t n) {
  const size_t end = std::min<size_t>(n, 4096);
  return equalBytes(a, b, end) && equalBytes(a + n - end, b + n - end, end);
}

} // namespace

std::string tensorDigest(const at::Tensor &tensor) {
  at::Tensor plain = dense(tensor);
  return sha256Hex(bytesOf(plain));
}

std::optional<llvm::StringRef> digestedInPlace(const at::Tensor &tensor) {
  const bool plain = tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() &&
                     tensor.device().is_cpu() && !tensor.is_quantized() && !tensor.is_conj() &&
                     !tensor.is_neg() && tensor.is_contiguous();
  if (!plain)
    return std::nullopt;
  return bytesOf(tensor);
}

int64_t byteCount(const at::Tensor &tensor) {
  auto bytes = [](const at::Tensor &part) { return static_cast<int64_t>(part.nbytes()); };
  if (tensor.layout() == at::kSparse)
    return bytes(tensor._indices()) + bytes(tensor._values());
  if (tensor.layout() == at::kSparseCsr || tensor.layout() == at::kSparseBsr)
    return bytes(tensor.crow_indices()) + bytes(tensor.col_indices()) + bytes(tensor.values());
  if (tensor.layout() == at::kSparseCsc || tensor.layout() == at::kSparseBsc)
    return bytes(tensor.ccol_indices()) + bytes(tensor.row_indices()) + bytes(tensor.values());
  return bytes(tensor);
}

bool haveSameBits(const at::Tensor &a, const at::Tensor &b, bool copy) {
  auto isPlain = [](const at::Tensor &tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
           tensor.has_storage() && tensor.device().is_cpu() && !tensor.is_quantized() &&
           !tensor.is_conj() && !tensor.is_neg() && tensor.is_non_overlapping_and_dense();
  };
  return isPlain(a) && isPlain(b) && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.requires_grad() == b.requires_grad() &&
         (copy ? equalEnds : equalBytes)(static_cast<const char *>(a.const_data_ptr()),
                                         static_cast<const char *>(b.const_data_ptr()), a.nbytes());
}

uint64_t tensorHash(const at::Tensor &tensor) { return llvm::xxHash64(bytesOf(dense(tensor))); }

} // namespace pipec
