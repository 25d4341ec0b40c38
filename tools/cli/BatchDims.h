// The values of --batch-dim, --merge and --loss-output.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

using BatchDims = std::vector<std::pair<std::string, std::optional<int64_t>>>;

/// Parses texts NAME=K and NAME=none, in order. Errors: Usage.
llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts);

/// The parts of a list of paths of results. A comma inside a quoted key separates nothing. Errors:
/// Usage for an empty part.
llvm::Expected<std::vector<std::string>> splitPaths(const std::string &option,
                                                    llvm::StringRef text);

using Merges = std::vector<std::pair<std::string, MergeRule>>;

/// Parses texts PATH=RULE, also several separated by commas; a path may have quoted keys. Errors:
/// Usage.
llvm::Expected<Merges> parseMerges(llvm::ArrayRef<std::string> texts);

} // namespace pipec
