#include "ir/TensorBytes.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/xxhash.h"

#include <ATen/ops/empty_strided.h>

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

llvm::ArrayRef<uint8_t> bytesOf(const at::Tensor &contiguous) {
  return {static_cast<const uint8_t *>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

} // namespace

std::string tensorDigest(const at::Tensor &tensor) {
  at::Tensor plain = dense(tensor);
  llvm::SHA256 hash;
  hash.update(bytesOf(plain));
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

uint64_t tensorHash(const at::Tensor &tensor) { return llvm::xxHash64(bytesOf(dense(tensor))); }

} // namespace pipec
