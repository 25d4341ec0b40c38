// Errors from format strings. They are separate from the error type because that is public and fmt
// is not: pipec's fmt is part of LibTorch's headers.
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
