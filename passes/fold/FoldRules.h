// Rules of fold-constants for types, containers and control flow; each returns true when it changed
// something.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

bool foldTypeTest(Folding &folding, torch::jit::Node *node);
bool foldContainer(Folding &folding, torch::jit::Node *node);
bool foldControl(Folding &folding, torch::jit::Node *node);

} // namespace pipec
