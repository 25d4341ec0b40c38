// Errors from format strings. Apart from their type because it is public and fmt is not: the fmt
// that pipec uses lies among LibTorch's headers.
#pragma once

#include "ir/support/Failure.h"

#include <fmt/format.h>

namespace pipec {

/// makeError with a format string: failf(ExitCode::Usage, "stages: expected {}, got {}", a, b).
template <typename... Args>
llvm::Error failf(ExitCode code, fmt::format_string<Args...> format, Args &&...args) {
  return makeError(code, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace pipec
