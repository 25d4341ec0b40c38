// What a user may have meant who names a path that is no checkpoint.
#pragma once

#include "ir/support/Failure.h"

#include <string>
#include <vector>

namespace pipec {

/// Whether it is one checkpoint, damaged or not: it has a checkpoint.json.
bool looksLikeCheckpoint(const std::string &path);
/// Whether it is a directory of checkpoints: DIR of DIR/step-10.
bool holdsCheckpoints(const std::string &path);

/// Checkpoints, and directories of checkpoints, in `path` and beside it, without `path` itself. At
/// most three, which may be damaged.
std::vector<std::string> nearCheckpoints(const std::string &path);

/// The help for a path that should be a checkpoint: what one is, and those near it.
std::string whatACheckpointIs(const std::string &path);

/// BadArtifact for a checkpoint, or a directory of checkpoints, where `wanted` ("an artifact") is
/// expected: what it is, and which options take it. Success for all other paths.
llvm::Error refuseCheckpoint(const std::string &path, const std::string &wanted);

} // namespace pipec
