// Operators whose time is that of the bytes that they move.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace pipec {

/// `op` as "aten::softmax". True: it looks at each element a few times, or only moves it; what it
/// computes on the way does not count. Any thread.
bool isMemoryBound(llvm::StringRef op);

} // namespace pipec
