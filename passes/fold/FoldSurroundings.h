// A rule of fold-constants for what a node stands in.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// True when it changed something.
bool foldSurroundings(Folding &folding, torch::jit::Node *node);

} // namespace pipec
