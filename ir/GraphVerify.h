// Whether a LibTorch graph hangs together. LibTorch's own lint asks the same, but looks at the
// whole graph again for every block, and at all users of a value again for every user.
#pragma once

#include "ir/support/Error.h"

#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace pipec {

/// Values and users know one another, and every value is defined before it is used, in the same
/// block or in one around it. Time in proportion to the graph. Errors: Unreadable naming the node.
llvm::Error lintGraph(const torch::jit::Graph &graph);

/// The same, and every operator is known, and nothing reads a module when `lowered`. Errors: as
/// above.
llvm::Error verifyGraph(const torch::jit::Graph &graph, bool lowered);

/// What a graph looks like from outside.
struct GraphFace {
  std::vector<size_t> inputUses; // how often each input is read
  size_t outputs = 0;
  std::string firstInputType; // empty: there is no input
  bool firstInputIsModule = false;
};
GraphFace faceOf(const torch::jit::Graph &graph);

} // namespace pipec
