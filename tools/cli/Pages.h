// The files that an installation adds for a command: its manual page and its completion for three
// shells, all generated from the table of its options.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// Writes DIR/man/TOOL.1, DIR/bash/TOOL, DIR/zsh/_TOOL and DIR/fish/TOOL.fish. Errors: IO.
llvm::Error writePages(const ToolInfo &info, const std::string &directory);

} // namespace pipec
