// What an internal error of a compile leaves behind for whoever has to find it.
#pragma once

#include "compiler/Compiler.h"
#include "ir/support/Reproducer.h"

namespace pipec {

/// What README.txt says after versions and command: model, options, how to replay.
std::string reproducerAbout(const std::string &modelPath, const CompileOptions &options);

/// A reproducer below options.reproducers with
///
///   README.txt     the error, versions, the options, and how to replay
///   passes/        empty: for the text of the model after each pass
///
/// and no weights. The caller adds pipeline.txt, the passes as `pipe-opt --passes` takes them, and
/// publishes it. Errors: IO.
llvm::Expected<Reproducer> beginReproducer(const std::string &modelPath,
                                           const CompileOptions &options, const ErrorText &error);

} // namespace pipec
