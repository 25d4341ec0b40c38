// Quotes the first line of a message of LibTorch.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// "doing: message" for an error that guardTorch made while `doing`. Of LibTorch's message only the
/// first line is kept, at most 200 letters, without the place in LibTorch's own sources. If nothing
/// remains: `doing` alone.
std::string withFirstLine(llvm::StringRef doing, llvm::StringRef message);

} // namespace pipec
