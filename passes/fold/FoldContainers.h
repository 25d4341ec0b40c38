// The rules of fold-constants for lists, dicts and numbers in tensors.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// Lists and dicts that no operator changes, and numbers that pass through a tensor. Returns
/// whether it changed something.
bool foldContainer(Folding &folding, torch::jit::Node *node);

} // namespace pipec
