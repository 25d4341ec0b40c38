// Versions of pipec and of LibTorch as a plan names them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace pipec {

/// "2.11.0", "2.12.0a0+git1234", "2.6.0.dev20250101+cu130": three numbers, and what Python's
/// packages put behind them.
bool isVersion(llvm::StringRef text);

/// The same release: all but what stands behind "+", which names a build.
bool isSameRelease(llvm::StringRef version, llvm::StringRef other);

} // namespace pipec
