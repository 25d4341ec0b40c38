// Compares what a plan trains with what a model that may be its source trains.
#pragma once

#include "ir/artifact/Finding.h"
#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// One finding (other-plan) per difference: a parameter that only one of both trains, other names,
/// another dtype or shape. The order of the parameters is not compared: a model merged from the
/// stages has another. `plan` has a training. Errors: Unsupported for a dtype without a name.
llvm::Expected<std::vector<Finding>> compareTrained(const Plan &plan,
                                                    const torch::jit::Module &source);

} // namespace pipec
