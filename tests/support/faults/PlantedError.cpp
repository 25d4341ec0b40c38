// --planted-error, in test builds only: every command can fail at its end.
#include "tools/cli/ToolMain.h"

#include <stdexcept>

namespace pipec {

namespace {

llvm::cl::OptionCategory testBuilds("test builds");
FlagOption plantedError("planted-error", llvm::cl::Hidden, llvm::cl::cat(testBuilds),
                        llvm::cl::desc("fail at the end as a fault of pipec would (test builds)"));

[[maybe_unused]] const auto kRegistered = testEnd = [] {
  if (plantedError)
    throw std::runtime_error("planted error");
};

} // namespace

} // namespace pipec
