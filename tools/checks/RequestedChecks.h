// The checks that options of pipe-check ask for, beside those of the artifact itself.
#pragma once

#include "ir/artifact/ArtifactCheck.h"

#include <optional>

namespace pipec {

struct CheckRequest {
  std::string artifact;
  std::optional<std::string> against; // a model or an older artifact
  std::string loss, method;           // of the compile of that model; no loss: empty
  std::optional<std::string> caseDirectory;
};

/// Adds a step for each requested check, with its findings. If the artifact is damaged, its content
/// is neither used nor run. Returns messages that are no problems: versions, a case of another
/// source. Errors: those of Compiler::compareWith and compareArtifacts, of readCase and runCase.
llvm::Expected<std::vector<std::string>> addRequestedChecks(const CheckRequest &request,
                                                            ArtifactCheck &check);

} // namespace pipec
