// Types and constants by what they are: the same text whatever file they were read from.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <ATen/core/ivalue.h>

#include <string>

namespace pipec {

/// A type as TorchScript writes it, without shapes and without the numbers that LibTorch puts into
/// names of loaded classes; the same of a text.
std::string canonicalType(const c10::TypePtr &type);
std::string canonicalType(llvm::StringRef text);

/// Content of an attribute; tensors: dtype, sizes, strides, requires_grad, sha256 of the elements
/// in logical order.
std::string contentText(const c10::IValue &value);
/// The same of a tensor whose tensorDigest is known.
std::string contentText(const at::Tensor &tensor, const std::string &digest);

} // namespace pipec
