// A rule of fold-constants for questions about where and how a model runs.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// True when it changed something.
bool foldSurroundings(Folding &folding, torch::jit::Node *node);

} // namespace pipec
