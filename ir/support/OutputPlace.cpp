#include "ir/support/OutputPlace.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringRef.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace pipec {

namespace fs = std::filesystem;

namespace {

/// Without links, also where the last parts do not exist yet.
fs::path placeOf(const std::string &path) {
  std::error_code code;
  fs::path place = fs::weakly_canonical(fs::absolute(path, code), code);
  return code ? fs::path(path) : place;
}

/// The kind of a folder that one more file would damage; empty for any other folder.
std::string sealedKind(const fs::path &folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "MANIFEST", ignored))
    return "";
  return fs::exists(folder / "plan.json", ignored)         ? "an artifact"
         : fs::exists(folder / "checkpoint.json", ignored) ? "a checkpoint"
                                                           : "";
}

} // namespace

bool isSameFile(const std::string &a, const std::string &b) { return placeOf(a) == placeOf(b); }

llvm::Error refuseInside(const std::string &path) {
  for (fs::path folder = placeOf(path).parent_path();; folder = folder.parent_path()) {
    if (const std::string kind = sealedKind(folder); !kind.empty())
      return makeError(
          ExitCode::Usage,
          fmt::format("{} is inside {}, and a file added to it would damage it", path, kind),
          "choose a path outside the " + kind.substr(kind.find(' ') + 1));
    if (folder.empty() || folder == folder.parent_path())
      return llvm::Error::success();
  }
}

llvm::Error checkOutputPlace(const std::string &path) {
  TRY(refuseInside(path));
  const fs::path folder = placeOf(path).parent_path();
  if (folder.empty() || ::access(folder.c_str(), W_OK | X_OK) == 0)
    return llvm::Error::success();
  const int error = errno;
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) // a device needs no folder
    return llvm::Error::success();
  return failf(ExitCode::IO, "cannot write {}: {}", path,
               llvm::StringRef(std::generic_category().message(error)).lower());
}

} // namespace pipec
