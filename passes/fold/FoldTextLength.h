// A rule of fold-constants for lengths of texts that are unknown but never empty: messages made
// from a template, or texts that branches choose among such messages.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// Folds `len(text) > 0` and the like: gt, ge, eq and ne with a constant below the least length.
///
///   %a : str = prim::If(%c) -> ("got rank {}".format(%r), "training")
///   %n : int = aten::len(%a)
///   %b : bool = aten::gt(%n, 0)                                       =>  true
bool foldTextLength(Folding &folding, torch::jit::Node *node);

} // namespace pipec
