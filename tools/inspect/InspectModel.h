// What pipe-inspect shows of a TorchScript file.
#pragma once

#include "tools/inspect/InspectCommand.h"

namespace pipec {

/// Prints the modules of a TorchScript file. Errors: Usage for options of an artifact; those of
/// readModuleTree and moduleCosts.
llvm::Error inspectModel(const InspectCommand &command);

} // namespace pipec
