// Versions of pipec and of LibTorch as a plan names them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace pipec {

class JsonObject;

/// Whether the text is a version: "2.11.0", "2.12.0a0+git1234", "2.6.0.dev20250101+cu130". Three
/// numbers, then the suffixes of Python packages.
bool isVersion(llvm::StringRef text);

/// Reads a field that is a version; any other text is an error of the object.
std::string versionFrom(JsonObject &object, llvm::StringRef key);

/// Whether both are the same release: all is equal except the part behind "+", which names a build.
bool isSameRelease(llvm::StringRef version, llvm::StringRef other);

} // namespace pipec
