#include "tools/BatchDims.h"

#include "llvm/ADT/StringRef.h"

namespace pipec {

llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts) {
  BatchDims result;
  for (llvm::StringRef text : texts) {
    auto [name, value] = text.rsplit('=');
    int64_t dim = 0;
    if (name.empty() || (value != "none" && (value.getAsInteger(10, dim) || dim < 0)))
      return failf(ExitCode::Usage, "--batch-dim: expected NAME=K or NAME=none, got {}",
                   text.str());
    result.emplace_back(name.str(), value == "none" ? std::nullopt : std::optional<int64_t>(dim));
  }
  return result;
}

} // namespace pipec
