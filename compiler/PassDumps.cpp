#include "compiler/PassDumps.h"

#include "ir/ModelText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

llvm::Error PassDumps::write(const std::string &directory, const PassRun &run) {
  if (!run.changed)
    return llvm::Error::success();
  if (std::error_code code = llvm::sys::fs::create_directories(directory))
    return failf(ExitCode::IO, "--dump-ir {}: cannot create: {}", directory, code.message());
  TextOptions text;
  text.data = TextOptions::Data::None;
  text.digests = false;
  text.scopes = true;
  llvm::Expected<std::string> content = toText(*run.model, text);
  if (!content)
    return content.takeError();
  std::string path = fmt::format("{}/{:02}-{}.ir", directory, ++count_, run.info->name.str());
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (!code) {
    out << *content;
    out.close();
    code = out.error();
  }
  if (!code)
    return llvm::Error::success();
  out.clear_error();
  return failf(ExitCode::IO, "--dump-ir: cannot write {}: {}", path, code.message());
}

} // namespace pipec
