#include "ir/support/OwnFault.h"

namespace pipec {

llvm::Error ownFault(const std::string &what, llvm::Error error) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::IO || text.code == ExitCode::OutOfMemory)
    return makeError(text.code, what + ": " + text.message, text.help);
  return makeError(ExitCode::Internal, what + ": " + text.message);
}

} // namespace pipec
