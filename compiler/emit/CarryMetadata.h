// Module paths and source lines of a graph, for the graph that LibTorch made of its text.
#pragma once

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// Gives each node of `to` the module path and source line of the node of `from` that it came from.
/// Both graphs have nearly the same operators in the same order; reading text back adds a few,
/// drops a few and folds some. An operator of `to` without a counterpart takes those of the
/// operator that reads it, or of its neighbours if these are of one module; otherwise it has none,
/// because a wrong module would move cuts.
void carryMetadata(torch::jit::Graph &from, torch::jit::Graph &to);

} // namespace pipec
