// Operators that choose-cuts moved, put back where the source has them.
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

/// Works on the top level of one graph. Constants, and arithmetic on whole numbers, which passes
/// repeat where it is needed, are not counted: they go where what counts before them went, or to
/// the first that needs them.
class SourceOrder {
public:
  explicit SourceOrder(torch::jit::Graph &graph);

  size_t size() const { return counted_.size(); }

  /// order[i] is the place in the source of the i-th operator that counts. Errors: BadArtifact when
  /// an operator would read what is made after it.
  llvm::Error restore(const std::vector<size_t> &order);

private:
  /// To the end, after what it needs and is not counted. False: it needs a counted one that is not
  /// there yet.
  bool place(torch::jit::Node *node);
  bool canPlace(torch::jit::Node &node);
  bool hasMaker(torch::jit::Value *value);

  torch::jit::Graph &graph_;
  std::vector<torch::jit::Node *> counted_, first_;
  std::vector<std::vector<torch::jit::Node *>> followers_; // of each that counts: those between it
                                                           // and the next
  llvm::DenseMap<torch::jit::Node *, size_t> indexOf_;     // looked up only
  llvm::DenseMap<torch::jit::Node *, bool> placed_;
};

} // namespace pipec
