// The output that a model prints itself.
#pragma once

namespace pipec {

/// From now on print() inside a model writes to stderr, because stdout holds the command's own
/// results, possibly one JSON document. Warnings (warnings.warn, and LibTorch's operators) go to
/// stderr too, each text once in this process.
void sendModelPrintsToStderr();

} // namespace pipec
