// Writes a file in one step, for files that are not read while they are written.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <system_error>

namespace pipec {

/// Creates or replaces the file. A full disk is an error, too. The code is the last one of the
/// system. Callers name the option or output.
std::error_code writeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace pipec
