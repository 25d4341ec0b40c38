// The rule of fold-constants for operators on known values: integer arithmetic, comparisons, texts.
#pragma once

#include "passes/fold/Folding.h"

namespace pipec {

/// Replaces an operator whose operands are known by its result.
bool foldOperator(Folding &folding, torch::jit::Node *node);

/// The node's result for these arguments, if it may be computed at compile time: operators of
/// LibTorch on numbers, strings and None without effects.
std::optional<c10::IValue> computedFor(const Folding &folding, torch::jit::Node *node,
                                       torch::jit::Stack arguments);

} // namespace pipec
