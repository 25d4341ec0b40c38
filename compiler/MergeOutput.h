// The file that a merge writes.
#pragma once

#include "ir/support/Failure.h"
#include "ir/support/NewFile.h"

#include <string>

namespace pipec {

/// Errors: Usage for a directory, a place in an artifact or a checkpoint, and an existing file
/// without `force`; IO for a place that cannot be written.
llvm::Error checkMergeOutput(const std::string &output, bool force);
/// Errors: Usage if the file exists without `force`; IO.
llvm::Error publishMerged(NewFile &file, const std::string &output, bool force);

} // namespace pipec
