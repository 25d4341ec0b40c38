#include "ir/support/CannotWrite.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <sys/resource.h>

namespace pipec {

namespace {

/// A write is stopped by a limit of the process, which its shell sets, or by one of the file
/// system.
WriteFailure tooLarge() {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return {fmt::format("file too large: a limit of the shell stops it at {} bytes",
                        uint64_t(limit.rlim_cur)),
            "raise the limit: ulimit -f unlimited"};
  return {"file too large: a limit of the file system stops it", "write to another file system"};
}

} // namespace

WriteFailure whyNotWritten(int error) {
  if (error == EFBIG)
    return tooLarge();
  std::string text = std::strerror(error);
  if (text.size() > 1 && llvm::isAlpha(text[1]) && text[1] >= 'a') // not "RPC ..."
    text[0] = llvm::toLower(text[0]);
  return {text, ""};
}

llvm::Error existsAlready(const std::string &path) {
  return makeError(ExitCode::Usage, path + ": exists already", "pass --force to replace it");
}

llvm::Error cannotWrite(const std::string &path, int error) {
  WriteFailure failure = whyNotWritten(error);
  return makeError(ExitCode::IO, fmt::format("{}: cannot write: {}", path, failure.why),
                   std::move(failure.help));
}

} // namespace pipec
