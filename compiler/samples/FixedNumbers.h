// Whole numbers inside a model that the number of samples does not change.
#pragma once

#include "compiler/samples/BatchForms.h"

namespace pipec {

/// A constant, or the number that operators make from constants, weights and arguments that are
/// given whole, as it was with the example. nullopt: it follows samples, or differs between rounds
/// of a loop.
std::optional<int64_t> fixedInt(const torch::jit::Value *value, const BatchForms &forms);

} // namespace pipec
