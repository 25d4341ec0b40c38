#include "tools/cli/BatchDims.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/ShownText.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringRef.h"
#include "tools/cli/CommandLine.h"

namespace pipec {

llvm::Expected<BatchDims> parseBatchDims(llvm::ArrayRef<std::string> texts) {
  BatchDims result;
  for (llvm::StringRef text : texts) {
    auto [name, value] = text.rsplit('=');
    int64_t dim = 0;
    const bool hasLineEnd = text.find_first_of("\r\n") != llvm::StringRef::npos;
    if (hasLineEnd || name.empty() || (value != "none" && (value.getAsInteger(10, dim) || dim < 0)))
      return failf(ExitCode::Usage, "--batch-dim: expected NAME=K or NAME=none, got {}",
                   shown(text));
    const auto given = value == "none" ? std::nullopt : std::optional<int64_t>(dim);
    for (const auto &[other, otherDim] : result)
      if (other == name && otherDim != given)
        return failf(ExitCode::Usage, "--batch-dim: expected one dimension for {}, got {} and {}",
                     name.str(), otherDim ? std::to_string(*otherDim) : "none", value.str());
    result.emplace_back(name.str(), given);
  }
  return result;
}

/// Splits at commas outside of quotes.
static std::vector<std::string> splitOutsideQuotes(llvm::StringRef text) {
  std::vector<std::string> parts(1);
  bool quoted = false, escaped = false;
  for (char letter : text) {
    if (letter == ',' && !quoted) {
      parts.emplace_back();
      continue;
    }
    quoted = quoted != (letter == '"' && !escaped);
    escaped = letter == '\\' && !escaped;
    parts.back() += letter;
  }
  return parts;
}

llvm::Expected<std::vector<std::string>> splitPaths(const std::string &option,
                                                    llvm::StringRef text) {
  std::vector<std::string> parts = splitOutsideQuotes(text);
  TRY(expectNoneEmpty(option, text, std::vector<llvm::StringRef>(parts.begin(), parts.end())));
  return parts;
}

llvm::Expected<Merges> parseMerges(llvm::ArrayRef<std::string> texts) {
  Merges result;
  for (const std::string &text : texts) {
    const std::vector<std::string> parts = TRY(splitPaths("--merge", text));
    for (const std::string &part : parts) {
      auto [path, value] = llvm::StringRef(part).rsplit('=');
      const std::optional<MergeRule> rule = parseMergeRule(value);
      if (path.empty() || !rule)
        return failf(ExitCode::Usage,
                     "--merge: expected PATH=concat:K, PATH=join, PATH=sum, PATH=mean, PATH=list "
                     "or PATH=same, got {}",
                     part);
      result.emplace_back(path.str(), *rule);
    }
  }
  return result;
}

} // namespace pipec
