// Shortens the tracebacks that LibTorch's interpreter puts before the reason of a failure.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

/// Returns `message` with its reason first, then one line per call in the author's files, outermost
/// first. A message without a traceback is returned unchanged.
///
///   The following operation failed in the TorchScript interpreter.
///   Traceback of TorchScript, serialized code (most recent call last):
///     ...                                                       RuntimeError: sizes differ
///   Traceback of TorchScript, original code (...):         =>     at net.py:12 in forward
///     File "/home/me/net.py", line 12, in forward                 at layer.py:7 in forward
///     ...
///   RuntimeError: sizes differ
std::string reasonFirst(llvm::StringRef message);

/// Whether the text begins with a line of a Python stack, `/home/me/net.py(12): forward`, as the
/// source range of a traced operator does.
bool isPythonStack(llvm::StringRef text);

} // namespace pipec
