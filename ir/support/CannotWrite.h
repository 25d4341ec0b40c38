// Why a file could not be written, in the words of all commands.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

struct WriteFailure {
  std::string why;  // "no such file or directory"
  std::string help; // empty: the reason says it all
};
/// error: errno of the write.
WriteFailure whyNotWritten(int error);

/// Usage, "PATH: exists already": a command replaces only with --force.
llvm::Error existsAlready(const std::string &path);

/// IO, "PATH: cannot write: no such file or directory".
llvm::Error cannotWrite(const std::string &path, int error);

} // namespace pipec
