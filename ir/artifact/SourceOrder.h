// Operators that choose-cuts moved, put back where the source has them.
#pragma once

#include "ir/MarkerOps.h"
#include "ir/WholeNumbers.h"
#include "ir/support/Error.h"
#include "llvm/ADT/DenseMap.h"

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace pipec {

/// Works on the top level of one graph. Constants, and arithmetic on whole numbers, which passes
/// repeat where it is needed, are not counted: they go where what counts before them went, or to
/// the first that needs them.
class SourceOrder {
public:
  explicit SourceOrder(torch::jit::Graph &graph) : graph_(graph) {
    for (torch::jit::Node *node : graph.nodes()) {
      const bool counts = node->kind() != c10::prim::Constant && node->kind() != cutSymbol() &&
                          !isWholeNumberOp(node);
      if (counts) {
        indexOf_[node] = counted_.size();
        counted_.push_back(node);
        followers_.emplace_back();
      } else if (node->kind() == c10::prim::Constant || counted_.empty()) {
        first_.push_back(node);
      } else {
        followers_.back().push_back(node);
      }
    }
  }

  size_t size() const { return counted_.size(); }

  /// order[i] is the place in the source of the i-th operator that counts. Errors: BadArtifact when
  /// an operator would read what is made after it.
  llvm::Error restore(const std::vector<size_t> &order) {
    std::vector<size_t> at(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      at[order[i]] = i;
    for (torch::jit::Node *node : first_)
      place(node);
    for (size_t source = 0; source < at.size(); ++source) {
      if (!place(counted_[at[source]]))
        return failf(ExitCode::BadArtifact,
                     "operator {} of the source ({}): reads what a later one makes", source,
                     counted_[at[source]]->kind().toQualString());
      for (torch::jit::Node *node : followers_[at[source]])
        place(node);
    }
    for (const std::vector<torch::jit::Node *> &nodes : followers_)
      for (torch::jit::Node *node : nodes)
        if (!placed_.count(node))
          place(node);
    return llvm::Error::success();
  }

private:
  /// To the end, after what it needs and is not counted. False: it needs a counted one that is not
  /// there yet.
  bool place(torch::jit::Node *node) {
    if (placed_.count(node))
      return true;
    if (!canPlace(*node))
      return false;
    placed_[node] = true;
    node->moveBefore(graph_.return_node());
    return true;
  }

  bool canPlace(torch::jit::Node &node) {
    for (torch::jit::Value *input : node.inputs())
      if (!hasMaker(input))
        return false;
    for (torch::jit::Block *block : node.blocks()) {
      for (torch::jit::Node *inner : block->nodes())
        if (!canPlace(*inner))
          return false;
      for (torch::jit::Value *output : block->outputs())
        if (!hasMaker(output))
          return false;
    }
    return true;
  }

  bool hasMaker(torch::jit::Value *value) {
    torch::jit::Node *maker = value->node();
    if (maker->owningBlock() != graph_.block() || maker->kind() == c10::prim::Param)
      return true;
    return indexOf_.count(maker) ? placed_.count(maker) > 0 : place(maker);
  }

  torch::jit::Graph &graph_;
  std::vector<torch::jit::Node *> counted_, first_;
  std::vector<std::vector<torch::jit::Node *>> followers_; // of each that counts: those between it
                                                           // and the next
  llvm::DenseMap<torch::jit::Node *, size_t> indexOf_;     // looked up only
  llvm::DenseMap<torch::jit::Node *, bool> placed_;
};

} // namespace pipec
