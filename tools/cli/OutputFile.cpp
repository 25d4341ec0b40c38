#include "tools/cli/OutputFile.h"

#include "ir/support/CannotWrite.h"
#include "ir/support/NewFile.h"
#include "ir/support/OutputPlace.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "tools/cli/CommandLine.h"

#include <filesystem>
#include <system_error>

namespace pipec {

llvm::Error refuseExisting(const StringOption &option, bool force) {
  if (llvm::Error error = checkOutputPlace(option))
    return withContext(std::move(error), spelledOption(option.ArgStr));
  if (force || !llvm::sys::fs::is_regular_file(option))
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected a new file, got {}, which exists",
                               spelledOption(option.ArgStr), option.getValue()),
                   "pass --force to replace it");
}

llvm::Error requireNewFile(const StringOption &option, bool force) {
  const std::string name = spelledOption(option.ArgStr);
  if (llvm::Error error = checkOutputPlace(option))
    return withContext(std::move(error), name);
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(option.getValue(), ignored);
  if (std::filesystem::is_directory(option.getValue(), ignored))
    return failf(ExitCode::Usage, "{}: expected a file, got {}, a directory", name,
                 option.getValue());
  if (force || !std::filesystem::exists(status))
    return llvm::Error::success();
  const bool isLink = std::filesystem::is_symlink(status);
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected a new file, got {}, {}", name, option.getValue(),
                               isLink ? "a symbolic link" : "which exists"),
                   isLink ? "pass --force to write the file that it names"
                          : "pass --force to replace it");
}

llvm::Error writeFileFor(const StringOption &option, const std::string &text, bool force) {
  TRY(refuseExisting(option, force));
  NewFile file(option);
  file.write(text.data(), text.size());
  file.publish(force);
  if (file.error() == 0)
    return llvm::Error::success();
  WriteFailure failure = whyNotWritten(file.error());
  return makeError(ExitCode::IO,
                   fmt::format("{}: cannot write {}: {}", spelledOption(option.ArgStr),
                               option.getValue(), failure.why),
                   failure.help);
}

} // namespace pipec
