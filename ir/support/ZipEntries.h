// The content of a zip archive from any writer. It serves to name the kind of a file, not to read
// models. Hand-made because LibTorch's reader throws on archives that it did not write, and those
// are the ones to be named.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace pipec {

struct ZipEntry {
  llvm::StringRef name;  // with its folders
  llvm::StringRef bytes; // empty where they are compressed, or not where the archive says
};

/// The entries of its directory, the first 100,000; none where the directory is damaged or missing.
/// They point into `file`.
std::vector<ZipEntry> zipEntries(llvm::StringRef file);

} // namespace pipec
