// What a model prints by itself.
#pragma once

namespace pipec {

/// From now on print() inside a model writes to stderr: stdout holds the command's own results, one
/// JSON document perhaps. What it warns of (warnings.warn, and LibTorch's operators) goes there,
/// too, each text once in this process.
void sendModelPrintsToStderr();

} // namespace pipec
