#include "ir/UnfinishedOutputs.h"

#include <filesystem>

namespace pipec {

UnfinishedOutputs &unfinishedOutputs() {
  static UnfinishedOutputs outputs;
  return outputs;
}

void removeTree(const std::string &path) {
  // A writer may still be adding a file: a few tries.
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error)
      return;
  }
}

void abandonUnfinishedOutputs() {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  open.abandoned = true;
  for (const std::string &path : open.paths)
    removeTree(path);
  open.paths.clear();
}

} // namespace pipec
