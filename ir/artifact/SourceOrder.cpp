#include "ir/artifact/SourceOrder.h"

#include "ir/MarkerOps.h"
#include "ir/WholeNumbers.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

SourceOrder::SourceOrder(torch::jit::Graph &graph) : graph_(graph) {
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

llvm::Error SourceOrder::restore(const std::vector<size_t> &order) {
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

bool SourceOrder::place(torch::jit::Node *node) {
  if (placed_.count(node))
    return true;
  if (!canPlace(*node))
    return false;
  placed_[node] = true;
  node->moveBefore(graph_.return_node());
  return true;
}

bool SourceOrder::canPlace(torch::jit::Node &node) {
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

bool SourceOrder::hasMaker(torch::jit::Value *value) {
  torch::jit::Node *maker = value->node();
  if (maker->owningBlock() != graph_.block() || maker->kind() == c10::prim::Param)
    return true;
  return indexOf_.count(maker) ? placed_.count(maker) > 0 : place(maker);
}

} // namespace pipec
