// Compares the two methods of a stage file: `forward` must be `pipec_forward` on the weights of the
// stage's own module. `forward` calls `pipec_forward`; in older files it repeats the same
// operators.
#pragma once

#include "ir/support/Error.h"

#include <cstddef>
#include <vector>

namespace torch::jit {
struct Graph;
struct Value;
} // namespace torch::jit

namespace pipec {

struct Plan;

/// The results of a method in the emitter's packing: none, one bare, several in a tuple.
std::vector<torch::jit::Value *> resultsOf(torch::jit::Value *result, size_t expected);

/// `pipecForward` is the graph of one stage. `forward` on the stage's own weights must have the
/// same lines. Errors: BadArtifact.
llvm::Error compareMethods(const Plan &plan, size_t stage, torch::jit::Graph &pipecForward,
                           torch::jit::Graph &forward);

} // namespace pipec
