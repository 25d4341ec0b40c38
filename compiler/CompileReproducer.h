// What an internal error of a compile leaves behind for whoever has to find it.
#pragma once

#include "compiler/Compiler.h"
#include "ir/Reproducer.h"

namespace pipec {

/// A reproducer below options.reproducers with
///
///   README.txt     the error, versions, the options, and how to replay
///   pipeline.txt   the passes as `pipe-opt --passes` takes them
///   passes/        empty: for the text of the model after each pass
///
/// and no weights, to be published by the caller. Errors: IO.
llvm::Expected<Reproducer> beginReproducer(const std::string &modelPath,
                                           const CompileOptions &options, const ErrorText &error);

} // namespace pipec
