// The files that an internal error of a compile leaves behind for its investigation.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/support/Reproducer.h"

namespace pipec {

/// The part of README.txt after versions and command: model, options, how to replay.
std::string reproducerAbout(const std::string &modelPath, const CompileOptions &options);

/// A reproducer below options.reproducers of what `command` did, with
///
///   README.txt     the error, versions, the options, and how to replay
///   passes/        empty: for the text of the model after each pass
///
/// and without weights. The caller adds pipeline.txt, the passes in the form of `pipe-opt
/// --passes`, and publishes it. Errors: IO.
llvm::Expected<Reproducer> beginReproducer(const std::string &modelPath,
                                           const CompileOptions &options,
                                           const std::vector<std::string> &command,
                                           const ErrorText &error);

} // namespace pipec
