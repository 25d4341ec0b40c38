#include "ir/plan/Faults.h"

#include "llvm/ADT/ArrayRef.h"

#include <fmt/ranges.h>

namespace pipec::planparts {

void Faults::note(llvm::Error error) {
  if (error)
    messages_.push_back(describe(std::move(error)).message);
}

llvm::Error Faults::take() {
  constexpr size_t kMostShown = 10;
  if (messages_.empty())
    return llvm::Error::success();
  if (messages_.size() == 1)
    return bad("{}", messages_.front());
  const llvm::ArrayRef<std::string> shown =
      llvm::ArrayRef<std::string>(messages_).take_front(std::min(kMostShown, messages_.size()));
  return bad("{} faults: {}{}", messages_.size(), fmt::join(shown.begin(), shown.end(), "; "),
             messages_.size() > kMostShown ? "; ..." : "");
}

std::string attributeName(const Plan &plan, size_t stage, size_t index) {
  return fmt::format("stage {}, attribute {}", stage, plan.stages[stage].attributes[index].name);
}

std::string channelName(const Plan &plan, size_t index) {
  return fmt::format("channel {} ({})", index, plan.channels[index].name);
}

} // namespace pipec::planparts
