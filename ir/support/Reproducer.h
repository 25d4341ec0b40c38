// What an internal error leaves behind for whoever has to find it: a directory of texts.
#pragma once

#include "ir/support/Error.h"
#include "ir/support/UnfinishedOutputs.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// A directory `pipec-reproducer-N` below a parent, with the first N that is free. It appears
/// complete or not at all: it is made under a hidden name, which goes away with the object, and on
/// Ctrl-C, unless it was published. One thread at a time.
class Reproducer {
public:
  /// Errors: IO.
  static llvm::Expected<Reproducer> begin(const std::string &parent);

  /// Where the files are put until publish().
  const std::string &directory() const { return temporary_.path(); }
  /// A file of that name, as "passes/01-inline.ir". Errors: IO.
  llvm::Error write(const std::string &name, const std::string &text);
  /// Returns the directory's own name. Errors: IO; Other when the process is ending.
  llvm::Expected<std::string> publish();

private:
  Reproducer() = default;
  std::string parent_;
  UnfinishedDirectory temporary_;
};

/// The model's file, weights and all, in a reproducer that has it.
constexpr llvm::StringLiteral kModelFile = "model.pt";

/// A command as a shell takes it.
std::string shellText(const std::vector<std::string> &command);

/// README.txt: the error, versions, the command (where there is one), and `about`, which says what
/// else the directory holds and how to go on from it.
std::string reproducerReadme(const ErrorText &error, const std::vector<std::string> &command,
                             const std::string &about);

/// The error with `made` in its help: where the reproducer is, or why there is none.
ErrorText withReproducer(ErrorText error, llvm::Expected<std::string> made);
/// Whether withReproducer() was called for it: whoever reports it later makes no second one.
bool mentionsReproducer(const ErrorText &error);

} // namespace pipec
