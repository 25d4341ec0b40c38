#include "ir/support/Failure.h"

namespace pipec {

char Failure::ID = 0;

void Failure::log(llvm::raw_ostream &os) const {
  os << message_;
  if (!help_.empty())
    os << "\nhelp: " << help_;
}

std::error_code Failure::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

llvm::Error makeError(ExitCode code, std::string message, std::string help) {
  return llvm::make_error<Failure>(code, std::move(message), std::move(help));
}

ErrorText describe(llvm::Error error) {
  ErrorText text{ExitCode::Success, "", ""};
  llvm::handleAllErrors(
      std::move(error),
      [&](const Failure &failure) {
        if (text.code == ExitCode::Success)
          text = {failure.code(), failure.text(), failure.help()};
      },
      [&](const llvm::ErrorInfoBase &other) {
        if (text.code == ExitCode::Success)
          text = {ExitCode::Other, other.message(), ""};
      });
  return text;
}

llvm::Error withContext(llvm::Error error, const std::string &context) {
  if (!error)
    return llvm::Error::success();
  ErrorText text = describe(std::move(error));
  return makeError(text.code, context + ": " + text.message, text.help);
}

} // namespace pipec
