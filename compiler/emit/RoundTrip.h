// The normal form of a graph: LibTorch writes it and reads it back unchanged.
#pragma once

#include "ir/Model.h"

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// LibTorch's parser orders the results of a branch or loop by name, and values without a name get
/// numbers, of which _10 sorts before _9. This function names such results in their order, so that
/// a round trip keeps it.
void nameResultsInOrder(torch::jit::Graph &graph);

/// Stage files hold source text, and reading text back may reorder outputs of control flow, fold
/// and merge. So the model's graph is written and read (without weights) until it comes back
/// unchanged: later cuts then see the graph that the files will hold. Module paths and source lines
/// are carried over. Returns whether the graph changed. Errors: Unsupported if LibTorch cannot
/// write or read the graph, Internal if it does not settle.
llvm::Expected<bool> roundTrip(Model &model);

} // namespace pipec
