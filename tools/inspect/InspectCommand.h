// What pipe-inspect shows: an artifact, or a TorchScript file.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// The options as they were given.
struct InspectCommand {
  const StringOption &model, &html, &trace, &comms, &inputs, &method;
  const StringListOption &libraries;
  bool schedule, json, force;
};

/// Prints the artifact and writes its page and its table. Errors: Usage for options of a
/// TorchScript file; those of openArtifact, of the trace and of the files; BadArtifact.
llvm::Error inspectArtifact(const InspectCommand &command);

/// Prints the modules of a TorchScript file. Errors: Usage for options of an artifact; those of
/// readModuleTree and moduleCosts.
llvm::Error inspectModel(const InspectCommand &command);

} // namespace pipec
