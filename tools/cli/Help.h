// --help: usage, arguments, options by category, examples.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// --help: usage, arguments, options by category, examples. Options are sorted by name within their
/// category, so the text depends only on the declarations.
std::string helpText(const ToolInfo &info);

} // namespace pipec
