// LibTorch's words behind ours.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// "doing: message", of an error that guardTorch made while `doing`: of LibTorch's message the
/// first line, at most 200 letters, without the place in LibTorch's own sources; `doing` alone
/// where that is all it says.
std::string withFirstLine(llvm::StringRef doing, llvm::StringRef message);

} // namespace pipec
