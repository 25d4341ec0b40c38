// Files that an option asks for, beside what a command prints.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// Writes `text` to the file that `option` names: complete, or not at all. Errors, beginning with
/// the option: Usage when the file exists and `force` is not set, or lies in an artifact; IO.
llvm::Error writeFileFor(const StringOption &option, const std::string &text, bool force);

/// These Usage errors alone, for those who would rather know before a long work.
llvm::Error refuseExisting(const StringOption &option, bool force);

} // namespace pipec
