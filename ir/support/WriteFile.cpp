#include "ir/support/WriteFile.h"

#include "llvm/Support/raw_ostream.h"

namespace pipec {

std::error_code writeFile(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (code)
    return code;
  out << bytes;
  out.close();
  code = out.error();
  out.clear_error(); // an error that is left ends the process
  return code;
}

} // namespace pipec
