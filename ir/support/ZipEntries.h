// What a zip archive holds, whoever wrote it: for saying what a file is. Not for reading models.
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
