// Completion for bash, zsh and fish. Each file is self-contained: the shell reads it when the
// command is first completed, and it does not run the command.
#pragma once

#include "tools/cli/OptionTable.h"

namespace pipec {

std::string bashCompletion(const ToolInfo &info);
std::string zshCompletion(const ToolInfo &info);
std::string fishCompletion(const ToolInfo &info);

} // namespace pipec
