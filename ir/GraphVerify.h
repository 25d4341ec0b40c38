// Checks that a LibTorch graph is consistent. LibTorch's own lint checks the same, but it walks the
// whole graph again for every block, and all users of a value again for every user.
#pragma once

#include "ir/support/Error.h"

#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// Checks that values and their users list each other, and that every value is defined before it is
/// used, in the same block or in an enclosing one. Takes time linear in the size of the graph.
/// Errors: Unreadable naming the node.
llvm::Error lintGraph(const torch::jit::Graph &graph);

/// Runs lintGraph and checks that every operator is known. If `lowered`, also checks that nothing
/// reads a module. Errors: Unreadable naming the node.
llvm::Error verifyGraph(const torch::jit::Graph &graph, bool lowered);

/// A graph seen from outside: its inputs and how they are used.
struct GraphFace {
  std::vector<size_t> inputUses; // how often each input is read
  size_t outputs = 0;
  std::string firstInputType; // empty: the graph has no input
  bool firstInputIsModule = false;
};
GraphFace faceOf(const torch::jit::Graph &graph);

} // namespace pipec
