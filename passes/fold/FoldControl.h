// The rules of fold-constants for branches and loops.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// prim::If: a branch that is always taken replaces it, and results that are equal on both sides
/// are taken out of it. prim::Loop: values that no iteration changes. Returns whether it changed
/// something.
bool foldControl(Folding &folding, torch::jit::Node *node);

} // namespace pipec
