// A part of verify(Plan): arguments, results and tensors. Only for ir/plan.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec::planparts {

/// Checks that the description of a tensor is consistent: dtype, number of strides, and `bytes`,
/// which must follow from the sizes at the example's batch.
llvm::Error verifyTensor(const Plan &plan, const std::string &where, const TensorSpec &spec);

/// Checks arguments and results: names, trees, and batch dimensions and merge rules against the
/// sizes that the example runs showed.
llvm::Error verifySignature(const Plan &plan);

/// Checks the facts that folds relied on, and the operators that are computed again.
llvm::Error verifyObligations(const Plan &plan);

} // namespace pipec::planparts
