// Compares a whole batch with its parts: the gradients of a step must not depend on the number of
// its micro-batches.
#pragma once

#include "compiler/verify/SourceGradients.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

/// Trains the source on a whole batch and on its two parts, weighted as a step weighs them. Warns
/// of the gradient that differs most if the losses agree: if they do not, another warning has said
/// so. `norms`, of DiscoveryOptions, are the cause if there are any. Empty: the gradients agree, or
/// `runs`, all that the source made, do not hold both, or the gradients of `plan` are too large to
/// keep three times. `train` gives the steps of a run; its errors end the comparison: the runs that
/// were asked for have been compared.
std::string warningOnParts(
    llvm::ArrayRef<ExampleRun> runs, const Plan &plan, const LossLeaves &loss,
    const std::string &norms,
    llvm::function_ref<llvm::Expected<std::vector<SourceStep>>(const ExampleRun &run)> train);

} // namespace pipec
