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

/// Parses texts NAME=K and NAME=none, in order. Errors: Usage.
llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts);

using Merges = std::vector<std::pair<std::string, MergeRule>>;

/// Parses texts PATH=RULE, also several separated by commas; a path may have quoted keys. Errors:
/// Usage.
llvm::Expected<Merges> parseMerges(llvm::ArrayRef<std::string> texts);

} // namespace pipec
