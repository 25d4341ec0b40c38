// Files that an option asks for, beside the command's printed output.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// Writes `text` to the file that `option` names; the file appears complete or not at all. Errors,
/// beginning with the option: Usage if the file exists and `force` is not set, or lies in an
/// artifact or a checkpoint; IO.
llvm::Error writeFileFor(const StringOption &option, const std::string &text, bool force);

/// Checks only for these errors, for callers that want to know before long work.
llvm::Error refuseExisting(const StringOption &option, bool force);

/// The same for a file of values, which is no device: Usage also for a link, which only `force`
/// follows, and for a directory.
llvm::Error requireNewFile(const StringOption &option, bool force);

} // namespace pipec
