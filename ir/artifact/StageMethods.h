// The two methods of a stage file, compared: `forward` is `pipec_forward` on the weights of the
// stage's own module. It calls it; in files of before it has the same operators once more.
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

/// Results of a method as the emitter packs them: none, one bare, several in a tuple.
std::vector<torch::jit::Value *> resultsOf(torch::jit::Value *result, size_t expected);

/// `pipecForward` is that of one stage: `forward` on the stage's own weights must be the same
/// lines. Errors: BadArtifact.
llvm::Error compareMethods(const Plan &plan, size_t stage, torch::jit::Graph &pipecForward,
                           torch::jit::Graph &forward);

} // namespace pipec
