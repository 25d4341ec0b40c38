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

/// How much the text says. Digest: of an object its type, of a list or dict its elements. Digests
/// of sources in plans are made of these texts. Exact: of an object its state, of a list or dict
/// also the types of elements, which an empty one shows in no other way.
enum class Detail { Digest, Exact };

/// Content of an attribute. A tensor has dtype, sizes, strides (or its layout), requires_grad, the
/// scales of a quantised one, and sha256 of the elements in logical order. The state of an object
/// is the result of its __getstate__ (packed weights of quantised operators have one), or else its
/// attributes. A value without a text for all that it is (a stream, a generator, an object whose
/// __getstate__ fails) equals nothing.
std::string contentText(const c10::IValue &value, Detail detail = Detail::Digest);
/// A text for content that has none. It equals no other text, not even one made again for the same
/// content, so a proof that meets it fails. Any thread.
std::string equalToNothing(llvm::StringRef what);
/// Whether the exact text differs from the other one: an object, a list or a dict is in the value.
bool hasExactText(const c10::IValue &value);
/// Whether an object is in the value.
bool holdsObject(const c10::IValue &value);
/// The same for a tensor whose tensorDigest is known.
std::string contentText(const at::Tensor &tensor, const std::string &digest);

} // namespace pipec
