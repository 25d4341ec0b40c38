// Where outputs may be written.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

/// Checks a place before the work that makes the output. Errors: Usage if `path` is in an artifact
/// or in a checkpoint, at any depth: one more file or other bytes damage it.
llvm::Error refuseInside(const std::string &path);

/// The same for a file, whose directory must be there: also IO if it is missing or not writable.
llvm::Error checkOutputPlace(const std::string &path);

/// Whether two outputs would be one file. They need not exist.
bool isSameFile(const std::string &a, const std::string &b);

} // namespace pipec
