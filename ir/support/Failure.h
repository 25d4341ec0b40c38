// The one error type of pipec: a message in the user's terms, its exit code, and one likely fix.
// Public.
#pragma once

#include "llvm/Support/Error.h"

#include <string>

namespace pipec {

/// Exit codes of the commands; docs/cli.md has the table.
enum class ExitCode : int {
  Success = 0,
  Other = 1,
  Usage = 2,       // command line or configuration
  Unreadable = 3,  // input unreadable or not TorchScript
  Unsupported = 4, // a construct of the model that cannot be cut
  BadArtifact = 5, // damaged, or not what its plan says
  Version = 6,
  Mismatch = 7, // numbers differ
  IO = 8,
  PeerLost = 9,
  OutOfMemory = 10,
  NotFinite = 11,
  NoPlan = 12, // no plan fits the limits
  Internal = 70,
};

/// The payload of every llvm::Error that pipec makes.
class Failure : public llvm::ErrorInfo<Failure> {
public:
  static char ID;
  Failure(ExitCode code, std::string message, std::string help)
      : code_(code), message_(std::move(message)), help_(std::move(help)) {}

  ExitCode code() const { return code_; }
  /// Lower case, no full stop; names the thing and both numbers.
  const std::string &text() const { return message_; }
  /// One likely fix, or empty.
  const std::string &help() const { return help_; }

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  ExitCode code_;
  std::string message_;
  std::string help_;
};

llvm::Error makeError(ExitCode code, std::string message, std::string help = "");

/// Consumes `error` and returns its code (Other for foreign errors; the first of several), message
/// and help.
struct ErrorText {
  ExitCode code;
  std::string message;
  std::string help;
};
ErrorText describe(llvm::Error error);

/// Puts "context: " before the message. Code and help stay the same.
llvm::Error withContext(llvm::Error error, const std::string &context);

} // namespace pipec
