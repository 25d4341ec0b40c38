// Normal form of a graph: the one that LibTorch writes and reads back unchanged.
#pragma once

#include "ir/Model.h"

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// Reading text back puts the results of a branch or loop in the order of their names, and values
/// without a name get numbers: _10 comes before _9. This gives results that stand together names
/// in their order, so that writing keeps it.
void nameResultsInOrder(torch::jit::Graph &graph);

/// Stage files hold source text, and reading text back may reorder outputs of control flow, fold
/// and merge. The model's graph is written and read (without weights) until it comes back as it
/// went, so that what is cut later is what the files will say. Module paths and source lines are
/// carried over. Returns whether the graph changed. Errors: Unsupported when LibTorch cannot write
/// or read the graph, Internal when it does not settle.
llvm::Expected<bool> roundTrip(Model &model);

} // namespace pipec
