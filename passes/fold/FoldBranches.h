// Rules of fold-constants for values that depend on branches.
//
//   %a : str = prim::If(%c) -> ("", "too long")         %b : bool = prim::If(%c) -> (true, false)
//   %n : int = aten::len(%a)                      =>    which is %c
//   %b : bool = aten::eq(%n, 0)
//
// and, where a branch on %c stands inside or behind another branch on %c:
//
//   %v : Tensor? = prim::If(%c) -> (None, %x)           prim::If(%c)
//   prim::If(%c)                                  =>      block0(): ... None ...
//     block0(): ... %v ...                                block1(): ... %x ...
//     block1(): ... %v ...
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// Folds an operator of one branch-dependent value, if all results of the branches are constants
/// and all other arguments are known.
bool foldThroughBranch(Folding &folding, torch::jit::Node *node);

/// prim::If: inside a branch its condition is known, and so is what follows from it.
bool foldKnownConditions(Folding &folding, torch::jit::Node *node);

} // namespace pipec
