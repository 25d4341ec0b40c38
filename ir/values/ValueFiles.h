// Files of values: the formats of --inputs, --expect and --output.
#pragma once

#include "ir/support/Error.h"
#include "ir/values/Arguments.h"

#include <string>

namespace pipec {

/// Reads a file written by torch.save (tuple or list: positional arguments; dict with string keys:
/// keyword arguments; single tensor: the only argument). Errors: IO, Unreadable with one sentence
/// for each kind of content that is refused.
llvm::Expected<Arguments> readArguments(const std::string &path);
/// Converts a value to arguments, as above. `what` names it in errors. Errors: Unreadable.
llvm::Expected<Arguments> argumentsOfValue(const std::string &what, const c10::IValue &value);
/// The value in the file, unchanged.
llvm::Expected<c10::IValue> readValue(const std::string &path);

/// Writes a file that the default torch.load reads (plain tuples, lists and dicts). Written
/// atomically; the same value gives the same bytes. Errors: IO; Unsupported for a value without a
/// plain form (a device, an object).
llvm::Error writeValue(const std::string &path, const c10::IValue &value);

} // namespace pipec
