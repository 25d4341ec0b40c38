// Custom operators from shared libraries.
#pragma once

#include "ir/support/Error.h"

namespace pipec {

/// Loads a library that registers operators; it stays loaded. Errors: IO with the loader's reason.
llvm::Error loadLibrary(const std::string &path);

} // namespace pipec
