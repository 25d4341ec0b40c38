// --dump-ir: the model's text after each pass that changed it.
#pragma once

#include "passes/PassManager.h"

namespace pipec {

/// Numbers the files over one compile: 01-inline.ir, 02-resolve-markers.ir, ... Weights are
/// described, not written.
class PassDumps {
public:
  /// Creates the directory on the first call. Errors: IO.
  llvm::Error write(const std::string &directory, const PassRun &run);

private:
  size_t count_ = 0;
};

} // namespace pipec
