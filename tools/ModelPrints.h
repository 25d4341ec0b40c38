// What a model prints by itself.
#pragma once

namespace pipec {

/// From now on print() inside a model writes to stderr: stdout holds the command's own results, one
/// JSON document perhaps.
void sendModelPrintsToStderr();

} // namespace pipec
