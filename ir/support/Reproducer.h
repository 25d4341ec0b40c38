// The directory of texts that an internal error leaves behind for its investigation.
#pragma once

#include "ir/support/Error.h"
#include "ir/support/UnfinishedOutputs.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace pipec {

/// A directory `pipec-reproducer-N` below a parent, with the first free N. It appears complete or
/// not at all: it is made under a hidden name, and removed with the object or on Ctrl-C unless it
/// was published. One thread at a time.
class Reproducer {
public:
  /// Errors: IO.
  static llvm::Expected<Reproducer> begin(const std::string &parent);

  /// The directory for the files until publish().
  const std::string &directory() const { return temporary_.path(); }
  /// Writes a file of that name, as "passes/01-inline.ir". Errors: IO.
  llvm::Error write(const std::string &name, const std::string &text);
  /// Returns the directory's own name. Errors: IO; Other if the process is ending.
  llvm::Expected<std::string> publish();

private:
  Reproducer() = default;
  std::string parent_;
  UnfinishedDirectory temporary_;
};

/// The name of the model's file, with weights, in a reproducer that has it.
constexpr llvm::StringLiteral kModelFile = "model.pt";

/// A command in shell syntax.
std::string shellText(const std::vector<std::string> &command);

/// README.txt: the error, versions, the command if there is one, and `about`, which describes the
/// rest of the directory and how to use it.
std::string reproducerReadme(const ErrorText &error, const std::vector<std::string> &command,
                             const std::string &about);

/// Adds `made` to the error's help: where the reproducer is, or why there is none.
ErrorText withReproducer(ErrorText error, llvm::Expected<std::string> made);
/// Whether withReproducer() was called for this error: a later reporter then makes no second one.
bool mentionsReproducer(const ErrorText &error);

} // namespace pipec
