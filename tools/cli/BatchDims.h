// The values of --batch-dim and --merge.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

using BatchDims = std::vector<std::pair<std::string, std::optional<int64_t>>>;

/// Of texts NAME=K and NAME=none, in order. Errors: Usage.
llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts);

using Merges = std::vector<std::pair<std::string, MergeRule>>;

/// Of texts PATH=RULE, several of them with commas between; a path may have quoted keys. Errors:
/// Usage.
llvm::Expected<Merges> parseMerges(llvm::ArrayRef<std::string> texts);

} // namespace pipec
