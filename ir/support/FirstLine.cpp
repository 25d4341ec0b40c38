#include "ir/support/FirstLine.h"

namespace pipec {

std::string withFirstLine(llvm::StringRef doing, llvm::StringRef message) {
  message.consume_front(doing);
  message = message.ltrim(": \n");
  constexpr llvm::StringLiteral kAssert("INTERNAL ASSERT FAILED"), kBug("report a bug to PyTorch.");
  if (message.contains(kAssert)) // the sentence behind it, where there is one
    message = message.contains(kBug) ? message.split(kBug).second : "";
  const llvm::StringRef line = message.trim().split('\n').first.rtrim(" .:");
  if (line.empty())
    return doing.str();
  constexpr size_t kMost = 200;
  return doing.str() + ": " + line.take_front(kMost).str() + (line.size() > kMost ? " ..." : "");
}

} // namespace pipec
