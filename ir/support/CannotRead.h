// The error for a file that cannot be read, the same for every command.
#pragma once

#include "ir/support/Failure.h"

#include <string>
#include <system_error>

namespace pipec {

/// IO, "cannot read PATH: no such file or directory", for a file or directory that a user names.
llvm::Error cannotRead(const std::string &path, std::error_code why, std::string help = "");

} // namespace pipec
