// The value of --batch-dim.
#pragma once

#include "ir/plan/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

using BatchDims = std::vector<std::pair<std::string, std::optional<int64_t>>>;

/// Of texts NAME=K and NAME=none, in order. Errors: Usage.
llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts);

} // namespace pipec
