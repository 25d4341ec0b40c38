#include "compiler/MergeOutput.h"

#include "ir/support/CannotWrite.h"
#include "ir/support/Error.h"
#include "ir/support/OutputPlace.h"

#include <cerrno>
#include <filesystem>

namespace pipec {

namespace fs = std::filesystem;

llvm::Error checkMergeOutput(const std::string &output, bool force) {
  std::error_code ignored;
  if (fs::is_directory(output, ignored))
    return makeError(ExitCode::Usage,
                     output + ": expected the name of a file to write, got a directory");
  if (llvm::Error error = checkOutputPlace(output))
    return withContext(std::move(error), "-o");
  if (!force && fs::exists(output, ignored))
    return existsAlready(output);
  return llvm::Error::success();
}

llvm::Error publishMerged(NewFile &file, const std::string &output, bool force) {
  file.publish(/*replace=*/force);
  if (file.error() == EEXIST)
    return existsAlready(output);
  return file.error() ? cannotWrite(output, file.error()) : llvm::Error::success();
}

} // namespace pipec
