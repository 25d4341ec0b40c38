#include "passes/PassOptions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {

std::optional<std::string> OptionReader::maybe(llvm::StringRef name) {
  known_.push_back(name.str());
  const auto found = options_.find(name.str());
  if (found == options_.end())
    return std::nullopt;
  return found->second;
}

size_t OptionReader::count(llvm::StringRef name, size_t fallback) {
  const std::optional<std::string> text = maybe(name);
  if (!text)
    return fallback;
  size_t value = 0;
  if (llvm::StringRef(*text).getAsInteger(10, value))
    complain(fmt::format("option {}: expected a number of 0 or more, got {}", name.str(), *text));
  return value;
}

std::optional<size_t> OptionReader::indexOfWord(llvm::StringRef name,
                                                llvm::ArrayRef<llvm::StringRef> words) {
  const std::optional<std::string> text = maybe(name);
  if (!text)
    return std::nullopt;
  const auto *found = llvm::find(words, *text);
  if (found != words.end())
    return found - words.begin();
  complain(fmt::format("option {}: expected one of {}, got {}", name.str(), llvm::join(words, ", "),
                       *text));
  return std::nullopt;
}

std::vector<std::string> OptionReader::list(llvm::StringRef name) {
  std::vector<std::string> result;
  const std::string text = maybe(name).value_or("");
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ':', -1, false);
  for (llvm::StringRef part : parts)
    result.push_back(part.str());
  return result;
}

void OptionReader::complain(std::string message) {
  if (complaint_.empty())
    complaint_ = std::move(message);
}

llvm::Error OptionReader::finish() {
  if (!complaint_.empty())
    return makeError(ExitCode::Usage, complaint_);
  for (const auto &[name, value] : options_)
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      return makeError(ExitCode::Usage, "unknown option " + name,
                       known_.empty() ? "this pass takes no options"
                                      : "its options are " + llvm::join(known_, ", "));
  return llvm::Error::success();
}

llvm::Error refuseOptions(const PassOptions &options) { return OptionReader(options).finish(); }

} // namespace pipec
