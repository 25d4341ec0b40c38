// The safe front of llvm::json. Input that its parser would accept wrongly or change silently is
// refused before the parser runs.
#pragma once

#include "ir/support/Error.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Limits of one document, and the name and code of its errors.
struct JsonLimits {
  std::string what = "json";             // begins every message: "plan.json"
  ExitCode code = ExitCode::BadArtifact; // of every error
  size_t maxBytes = 64u << 20;
  size_t maxDepth = 64;
};

/// Parses strict JSON. Errors, each with line and column: larger than maxBytes, nested deeper than
/// maxDepth, invalid UTF-8 (lone surrogates included), a key twice in one object, an integer
/// outside int64, a number that is not finite, anything that is not JSON.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, const JsonLimits &limits);

/// Keys sorted, two-space indent, values that fit in 100 columns on one line, a final newline.
/// Numbers must be int64 or finite.
std::string printJson(const llvm::json::Value &value);
/// The same on one line, without blanks.
std::string jsonText(const llvm::json::Value &value);

} // namespace pipec
