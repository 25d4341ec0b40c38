#include "tools/cli/OutputFile.h"

#include "ir/support/NewFile.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "tools/cli/CommandLine.h"

#include <system_error>

namespace pipec {

llvm::Error refuseExisting(const StringOption &option, bool force) {
  const std::string parent = llvm::sys::path::parent_path(option).str();
  const std::string beside = parent.empty() ? "" : parent + "/";
  if (llvm::sys::fs::exists(beside + "MANIFEST") && llvm::sys::fs::exists(beside + "plan.json"))
    return makeError(
        ExitCode::Usage,
        fmt::format("{}: {} is inside an artifact, and a file added to it would damage it",
                    spelledOption(option.ArgStr), option.getValue()),
        "choose a path outside the artifact");
  if (force || !llvm::sys::fs::is_regular_file(option))
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("{}: {} exists", spelledOption(option.ArgStr), option.getValue()),
                   "pass --force to replace it");
}

llvm::Error writeFileFor(const StringOption &option, const std::string &text, bool force) {
  TRY(refuseExisting(option, force));
  NewFile file(option);
  file.write(text.data(), text.size());
  file.publish(force);
  if (file.error() == 0)
    return llvm::Error::success();
  return failf(ExitCode::IO, "{}: cannot write {}: {}", spelledOption(option.ArgStr),
               option.getValue(),
               llvm::StringRef(std::generic_category().message(file.error())).lower());
}

} // namespace pipec
