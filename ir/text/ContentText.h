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

/// What the text says of objects. Digests of sources in plans up to format 1.1 know their type
/// only.
enum class Objects { ByType, ByState };

/// Content of an attribute; tensors: dtype, sizes, strides, requires_grad, sha256 of the elements
/// in logical order. The state of an object is what its __getstate__ gives, as of packed weights of
/// quantised operators, else its attributes. An object that has neither is equal to nothing.
/// Throws what __getstate__ throws.
std::string contentText(const c10::IValue &value, Objects objects = Objects::ByType);
/// Whether the text by state says more than that by type.
bool holdsObject(const c10::IValue &value);
/// The same of a tensor whose tensorDigest is known.
std::string contentText(const at::Tensor &tensor, const std::string &digest);

} // namespace pipec
