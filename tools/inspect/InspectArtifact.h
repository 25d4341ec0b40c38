// What pipe-inspect shows of an artifact.
#pragma once

#include "tools/inspect/InspectCommand.h"

namespace pipec {

/// Prints the artifact and writes its page and its table. Errors: Usage for options of a
/// TorchScript file; those of openArtifact, of the trace and of the files; BadArtifact.
llvm::Error inspectArtifact(const InspectCommand &command);

} // namespace pipec
