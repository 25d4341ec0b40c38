// The error of a check of what pipec itself made.
#pragma once

#include "ir/support/Failure.h"

#include <string>

namespace pipec {

/// "WHAT: message". The code is Internal, unless the machine failed: then it stays IO or
/// OutOfMemory, with its help.
llvm::Error ownFault(const std::string &what, llvm::Error error);

} // namespace pipec
