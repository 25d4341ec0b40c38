// Moves operators that choose-cuts reordered back to their order in the source.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace torch::jit {
struct Graph;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Works on the top level of one graph. Two kinds of operators do not count: constants, and
/// arithmetic on whole numbers, which passes repeat where it is needed. They follow the counted
/// operator before them, or go to the first operator that needs them.
class SourceOrder {
public:
  explicit SourceOrder(torch::jit::Graph &graph);

  size_t size() const { return counted_.size(); }

  /// order[i] is the source position of the i-th counted operator. Errors: BadArtifact if an
  /// operator would read a value that is made after it.
  llvm::Error restore(const std::vector<size_t> &order);

private:
  /// Appends the node, after the uncounted operators that it needs. Returns false if it needs a
  /// counted operator that is not placed yet.
  bool place(torch::jit::Node *node);
  bool canPlace(torch::jit::Node &node);
  bool hasMaker(torch::jit::Value *value);

  torch::jit::Graph &graph_;
  std::vector<torch::jit::Node *> counted_, first_;
  std::vector<std::vector<torch::jit::Node *>> followers_; // per counted operator: the uncounted
                                                           // ones between it and the next
  llvm::DenseMap<torch::jit::Node *, size_t> indexOf_;     // look-ups only
  llvm::DenseMap<torch::jit::Node *, bool> placed_;
};

} // namespace pipec
