// What an internal error leaves behind for whoever has to find it.
#pragma once

#include "compiler/Compiler.h"

namespace pipec {

/// Makes a new directory `pipec-reproducer-N` below `parent` with
///
///   README.txt     the error, versions, the options, and how to replay
///   pipeline.txt   the passes as `pipe-opt --passes` takes them
///   passes/        empty: for the text of the model after each pass
///
/// and returns its path. No weights. Errors: IO.
llvm::Expected<std::string> makeReproducer(const std::string &parent, const std::string &modelPath,
                                           const CompileOptions &options, const ErrorText &error);

} // namespace pipec
