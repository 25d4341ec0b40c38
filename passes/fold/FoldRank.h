// A rule of fold-constants for ranks, also of tensors that depend on branches.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// `node` asks for the rank of `of`.
bool foldRank(Folding &folding, torch::jit::Node *node, torch::jit::Value *of);

} // namespace pipec
