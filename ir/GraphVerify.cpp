#include "ir/GraphVerify.h"

#include "ir/NodeInfo.h"
#include "ir/support/Try.h"
#include "llvm/ADT/DenseSet.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

llvm::Error broken(const Node *node, const std::string &what) {
  return failf(ExitCode::Unreadable, "graph: {}: {}", describeNode(const_cast<Node *>(node)), what);
}

/// Each use that a value lists is an operand (checked at the value), and no two uses are equal (a
/// set). If there are as many uses as operands, each operand is also a use.
class GraphLinter {
public:
  llvm::Error run(const Graph &graph) {
    TRY(visitBlock(*graph.block()));
    if (uses_.size() != operands_)
      return failf(ExitCode::Unreadable,
                   "graph: expected as many users of values as operands of nodes, got {} and {}",
                   uses_.size(), operands_);
    return llvm::Error::success();
  }

private:
  llvm::Error visitBlock(const Block &block) {
    TRY(visit(block.param_node(), block));
    for (const Node *node : block.nodes())
      TRY(visit(node, block));
    TRY(visit(block.return_node(), block));
    leave(block.param_node());
    for (const Node *node : block.nodes())
      leave(node);
    return llvm::Error::success();
  }

  void leave(const Node *node) {
    for (const Value *output : node->outputs())
      inScope_.erase(output);
  }

  llvm::Error visit(const Node *node, const Block &block) {
    if (node->owningBlock() != &block)
      return broken(node, "it stands in another block than it says");
    if (node->kind() == c10::prim::Constant && !node->inputs().empty())
      return broken(node, "expected no operands, got some");
    operands_ += node->inputs().size();
    for (const Value *input : node->inputs())
      if (!inScope_.count(input))
        return broken(node, "reads %" + input->debugName() + ", which is not defined before it");
    for (const Block *inner : node->blocks()) {
      if (inner->owningNode() != node)
        return broken(node, "one of its blocks says that it is another node's");
      TRY(visitBlock(*inner));
    }
    for (size_t i = 0; i < node->outputs().size(); ++i)
      TRY(define(node, node->outputs()[i], i));
    return llvm::Error::success();
  }

  llvm::Error define(const Node *node, const Value *output, size_t offset) {
    if (output->node() != node || output->offset() != offset || !inScope_.insert(output).second)
      return broken(node, "%" + output->debugName() + " is no result of its own");
    for (const torch::jit::Use &use : output->uses())
      if (use.offset >= use.user->inputs().size() || use.user->inputs()[use.offset] != output ||
          !uses_.insert({use.user, use.offset}).second)
        return broken(node, "%" + output->debugName() + " has a user that does not read it");
    return llvm::Error::success();
  }

  llvm::DenseSet<const Value *> inScope_;
  llvm::DenseSet<std::pair<const Node *, size_t>> uses_;
  size_t operands_ = 0;
};

bool readsModule(const Node *node) {
  return node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr ||
         node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
}

llvm::Error verifyNodes(const Block *block, bool lowered) {
  for (const Node *constNode : block->nodes()) {
    auto *node = const_cast<Node *>(constNode);
    if (lowered && readsModule(node))
      return failf(ExitCode::Unreadable, "{}: nothing reads a module after lower-attributes",
                   describeNode(node));
    // Structure nodes of prim have no schema.
    if (!node->kind().is_prim() && !node->maybeOperator())
      return makeError(ExitCode::Unreadable,
                       fmt::format("{}: no such operator, or no overload takes these inputs",
                                   describeNode(node)),
                       "custom operators come with --load-library");
    for (const Block *inner : node->blocks())
      TRY(verifyNodes(inner, lowered));
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error lintGraph(const Graph &graph) { return GraphLinter().run(graph); }

llvm::Error verifyGraph(const Graph &graph, bool lowered) {
  TRY(lintGraph(graph));
  return verifyNodes(graph.block(), lowered);
}

GraphFace faceOf(const Graph &graph) {
  GraphFace face;
  for (const Value *input : graph.inputs())
    face.inputUses.push_back(input->uses().size());
  face.outputs = graph.outputs().size();
  if (!face.inputUses.empty()) {
    face.firstInputType = graph.inputs()[0]->type()->annotation_str();
    face.firstInputIsModule = graph.inputs()[0]->type()->is_module();
  }
  return face;
}

} // namespace pipec
