// The manual page of a command.
#pragma once

#include "tools/cli/OptionTable.h"

namespace pipec {

/// In roff, for man.
std::string manPage(const ToolInfo &info);

} // namespace pipec
