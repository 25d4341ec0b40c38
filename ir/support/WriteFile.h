// One way to write a file that nobody reads while it is written.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <system_error>

namespace pipec {

/// Creates or replaces the file. A disk that is full is noticed, too: the code is what the system
/// said last. Callers say which option or output it was about.
std::error_code writeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace pipec
