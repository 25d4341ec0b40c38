// The files that an installation adds for a command: its manual page and its completion for three
// shells, all generated from the table of its options.
#pragma once

#include "tools/cli/OptionTable.h"

namespace pipec {

/// In roff, for man.
std::string manPage(const ToolInfo &info);

std::string bashCompletion(const ToolInfo &info);
std::string zshCompletion(const ToolInfo &info);
std::string fishCompletion(const ToolInfo &info);

/// Writes DIR/man/TOOL.1, DIR/bash/TOOL, DIR/zsh/_TOOL and DIR/fish/TOOL.fish. Errors: IO.
llvm::Error writePages(const ToolInfo &info, const std::string &directory);

} // namespace pipec
