// Reads a text file that a user names, up to a size limit. The error for a file of another kind
// says which kind it is.
#pragma once

#include "ir/support/Failure.h"

#include <cstddef>
#include <string>

namespace pipec {

/// What a reader expects, and its errors.
struct TextFormat {
  std::string what;                // "JSON", "a table of a schedule"
  ExitCode code = ExitCode::Usage; // of a file of another kind, and of one that is too large
  size_t maxBytes = size_t(1) << 30;
  std::string help;        // for a file that cannot be read
  bool mayBeStdin = false; // "-" is the standard input
};

/// The whole content, without a byte order mark of UTF-8. A device or pipe is read up to its first
/// part that is no text. Errors: IO if it cannot be read; format.code if it is larger than
/// format.maxBytes or of another kind: "good.pt: expected JSON, got a TorchScript model".
llvm::Expected<std::string> readTextFile(const std::string &path, const TextFormat &format);

} // namespace pipec
