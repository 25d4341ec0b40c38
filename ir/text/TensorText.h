// Tensors as text: dtype and sizes, a digest of their elements, and the source of the elements for
// a reader of the text.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// "float32", "int64", ... Errors: Unsupported for dtypes without a text form (quantised, float8).
llvm::Expected<std::string> dtypeText(at::ScalarType type);
std::optional<at::ScalarType> dtypeFromText(llvm::StringRef text);

/// "float32[8,16]".
std::string tensorHeadText(const at::Tensor &tensor);
struct TensorHead {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
};
/// Errors: Unreadable.
llvm::Expected<TensorHead> tensorHeadFromText(llvm::StringRef text);

/// Elements in row-major order, whatever the strides; on the CPU.
std::string elementBytes(const at::Tensor &tensor);

/// Writes elements (row-major) into `tensor`. Errors: Unreadable if the number of bytes does not
/// fit the tensor.
llvm::Error setElements(at::Tensor &tensor, llvm::StringRef bytes);
/// Fills `tensor` from a generator seeded with `seed`: normal numbers, small integers, truth
/// values. The same seed gives the same bits.
void fillFromSeed(at::Tensor &tensor, uint64_t seed);

std::string hexText(llvm::StringRef bytes);
/// nullopt if the text is not hex.
std::optional<std::string> parseHex(llvm::StringRef text);

} // namespace pipec
