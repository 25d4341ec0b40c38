// What the parts of verify(Plan) share: messages, and faults that are reported together. Only for
// ir/plan.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

namespace pipec::planparts {

template <typename... Args> llvm::Error bad(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, format, std::forward<Args>(args)...);
}

/// A problem at a place: "stage 2, input 0".
template <typename... Args>
llvm::Error badAt(const std::string &where, fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, "{}: {}", where,
               fmt::format(format, std::forward<Args>(args)...));
}

/// Faults that do not hide each other, such as those of several channels: reported all at once.
class Faults {
public:
  void note(llvm::Error error);
  /// One of them as it is; several as "3 faults: ...; ...; ...", at most ten with their texts.
  /// Success: none was noted.
  llvm::Error take();

private:
  std::vector<std::string> messages_;
};

/// "stage 2, attribute head.weight", "channel 3 (c3)".
std::string attributeName(const Plan &plan, size_t stage, size_t index);
std::string channelName(const Plan &plan, size_t index);

} // namespace pipec::planparts
