// The front of a command that uses LibTorch, whose exceptions have their own texts and codes.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// plainToolMain with the texts and exit codes of LibTorch's exceptions.
int toolMain(int argc, char **argv, const ToolInfo &info,
             llvm::function_ref<llvm::Expected<ExitCode>()> body);

} // namespace pipec
