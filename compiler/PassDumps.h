// --dump-ir: the model's text after each pass that changed it.
#pragma once

#include "passes/PassManager.h"

namespace pipec {

/// Files of one directory, numbered within one compile: 01-inline.ir, 02-lower-attributes.ir, ...
class PassDumps {
public:
  PassDumps() = default;
  explicit PassDumps(std::string directory) : directory_(std::move(directory)) {}

  /// Checks the directory before anything runs. `replace` removes the dumps of an older compile,
  /// which would mix with the new ones. Errors: Usage naming an existing dump, or an artifact; IO.
  llvm::Error prepare(bool replace) const;

  /// Writes the next file if the pass changed the model, and creates the directory if needed.
  /// Errors: IO, also kept in failure().
  llvm::Error write(const PassRun &run);
  /// The message of the first file that could not be written; empty if all were.
  const std::string &failure() const { return failure_; }

  /// "01-inline.ir"
  static std::string fileName(size_t number, const PassInfo &pass);
  /// The content of such a file: weights are described, not written.
  static llvm::Expected<std::string> text(const AnyModel &model,
                                          const std::vector<NodeCost> &costs = {});

private:
  llvm::Error writeFile(const PassRun &run);
  std::string directory_, failure_;
  size_t count_ = 0;
};

} // namespace pipec
