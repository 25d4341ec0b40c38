// Operators whose time is the time of the bytes that they move.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace pipec {

/// True if `op`, as "aten::softmax", reads each element a few times or only moves it, so that its
/// arithmetic does not matter. Any thread.
bool isMemoryBound(llvm::StringRef op);

} // namespace pipec
