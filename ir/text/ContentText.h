// Types and constants by content: the text does not depend on the file that they come from.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <ATen/core/ivalue.h>

#include <string>

namespace pipec {

/// A type as TorchScript writes it, without shapes and without the numbers that LibTorch adds to
/// names of loaded classes. The second form takes the type as text.
std::string canonicalType(const c10::TypePtr &type);
std::string canonicalType(llvm::StringRef text);

/// How the text describes objects. Digests of sources in plans up to format 1.1 use their type
/// only.
enum class Objects { ByType, ByState };

/// Content of an attribute. A tensor has dtype, sizes, strides, requires_grad and sha256 of the
/// elements in logical order. The state of an object is the result of its __getstate__ (packed
/// weights of quantised operators have one), or else its attributes. An object that has neither
/// equals nothing. Throws what __getstate__ throws.
std::string contentText(const c10::IValue &value, Objects objects = Objects::ByType);
/// A text for content that has none. It equals no other text, not even one made again for the same
/// content, so a proof that meets it fails. Any thread.
std::string equalToNothing(llvm::StringRef what);
/// Whether the text by state differs from the text by type.
bool holdsObject(const c10::IValue &value);
/// The same for a tensor whose tensorDigest is known.
std::string contentText(const at::Tensor &tensor, const std::string &digest);

} // namespace pipec
