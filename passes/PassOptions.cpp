#include "passes/PassOptions.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace pipec {

std::optional<std::string> OptionReader::maybe(llvm::StringRef name) {
  known_.push_back(name.str());
  const auto found = options_.find(name.str());
  if (found == options_.end())
    return std::nullopt;
  return found->second;
}

int64_t OptionReader::integer(llvm::StringRef name, int64_t fallback) {
  const std::optional<std::string> text = maybe(name);
  if (!text)
    return fallback;
  int64_t value = 0;
  if (llvm::StringRef(*text).getAsInteger(10, value))
    complain(fmt::format("pass {}: option {}: expected an integer, got {}", pass_.str(), name.str(),
                         *text));
  return value;
}

std::string OptionReader::text(llvm::StringRef name, llvm::StringRef fallback) {
  return maybe(name).value_or(fallback.str());
}

bool OptionReader::flag(llvm::StringRef name, bool fallback) {
  const std::optional<std::string> text = maybe(name);
  if (!text)
    return fallback;
  if (text->empty() || *text == "true")
    return true;
  if (*text != "false")
    complain(fmt::format("pass {}: option {}: expected true or false, got {}", pass_.str(),
                         name.str(), *text));
  return false;
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
      return makeError(ExitCode::Usage,
                       fmt::format("pass {}: unknown option {}", pass_.str(), name),
                       known_.empty() ? "this pass takes no options"
                                      : "its options are " + llvm::join(known_, ", "));
  return llvm::Error::success();
}

llvm::Error refuseOptions(const PassOptions &options) {
  return OptionReader("without options", options).finish();
}

} // namespace pipec
