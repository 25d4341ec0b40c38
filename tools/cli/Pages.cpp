#include "tools/cli/Pages.h"

#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/Completion.h"
#include "tools/cli/ManPage.h"

namespace pipec {
namespace {

llvm::Error writePage(const std::string &path, const std::string &text) {
  auto failure = [&](std::error_code error) {
    return makeError(ExitCode::IO, path + ": cannot write: " + error.message());
  };
  llvm::StringRef parent = llvm::sys::path::parent_path(path);
  if (std::error_code error = llvm::sys::fs::create_directories(parent))
    return failure(error);
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (error)
    return failure(error);
  out << text;
  out.close();
  error = out.error();
  out.clear_error();
  return error ? failure(error) : llvm::Error::success();
}

} // namespace

llvm::Error writePages(const ToolInfo &info, const std::string &directory) {
  const std::pair<std::string, std::string> pages[] = {
      {"/man/" + info.name + ".1", manPage(info)},
      {"/bash/" + info.name, bashCompletion(info)},
      {"/zsh/_" + info.name, zshCompletion(info)},
      {"/fish/" + info.name + ".fish", fishCompletion(info)}};
  for (const auto &[path, text] : pages)
    TRY(writePage(directory + path, text));
  return llvm::Error::success();
}

} // namespace pipec
