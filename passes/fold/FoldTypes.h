// The rules of fold-constants that look at types only.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// None tests, isinstance, casts without effect, rank and dtype of tensors. Returns whether it
/// changed something.
bool foldTypeTest(Folding &folding, torch::jit::Node *node);

} // namespace pipec
