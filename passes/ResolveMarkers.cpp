// resolve-markers: every form of the author's pipe_split becomes the boundary pipec::cut().
#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Try.h"
#include "passes/Passes.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;

/// A scripted or plain function of that name, or the operator of the loadable library.
bool isMarker(Node *node) {
  if (node->kind() == pipeSplitSymbol())
    return true;
  if (node->kind() != c10::prim::CallFunction)
    return false;
  return node->input(0)->type()->expect<c10::FunctionType>()->function()->name() == "pipe_split";
}

/// Whether the author's function returns its one tensor, or takes and returns nothing. Another
/// function with that name computes something that must not be lost.
bool onlyMarks(Node *node) {
  if (node->kind() == pipeSplitSymbol())
    return true;
  torch::jit::GraphFunction *function = torch::jit::tryToGraphFunction(
      *node->input(0)->type()->expect<c10::FunctionType>()->function());
  if (!function)
    return false;
  const torch::jit::Graph &body = *function->graph();
  for (const Node *inner : body.nodes())
    if (inner->kind() != c10::prim::Constant)
      return false;
  const torch::jit::Value *result = body.outputs()[0];
  if (body.inputs().empty())
    return result->type()->kind() == c10::TypeKind::NoneType;
  return body.inputs().size() == 1 && result == body.inputs()[0] &&
         result->type()->kind() == c10::TypeKind::TensorType;
}

class ResolveMarkers : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    registerMarkerOps();
    bool changed = false;
    TRY(resolve(*model.graph->block(), changed));
    return changed;
  }

private:
  llvm::Error resolve(Block &block, bool &changed) {
    for (auto it = block.nodes().begin(); it != block.nodes().end();) {
      Node *node = *it;
      ++it;
      for (Block *inner : node->blocks())
        TRY(resolve(*inner, changed));
      if (!isMarker(node))
        continue;
      TRY(replace(node));
      changed = true;
    }
    return llvm::Error::success();
  }

  /// The marked value passes through unchanged; the boundary replaces the call.
  llvm::Error replace(Node *node) {
    size_t first = node->kind() == c10::prim::CallFunction ? 1 : 0;
    size_t arguments = node->inputs().size() - first;
    bool returnsValue =
        node->outputs().size() == 1 && node->output()->type()->kind() != c10::TypeKind::NoneType;
    if (arguments > 1 || (returnsValue && arguments == 0))
      return refuseWith(Refusal::MarkerArguments, describeNode(node), arguments);
    if (!onlyMarks(node))
      return refuseWith(Refusal::MarkerComputes, describeNode(node));
    torch::jit::Graph &graph = *node->owningGraph();
    Node *cut = graph.create(cutSymbol(), 0);
    cut->insertBefore(node);
    cut->copyMetadata(node);
    if (returnsValue) {
      node->output()->replaceAllUsesWith(node->input(first));
    } else if (node->outputs().size() == 1 && !node->output()->uses().empty()) {
      torch::jit::WithInsertPoint guard(node);
      node->output()->replaceAllUsesWith(graph.insertConstant(c10::IValue()));
    }
    Node *function = node->kind() == c10::prim::CallFunction ? node->input(0)->node() : nullptr;
    node->destroy();
    if (function && !function->hasUses()) // text cannot name a function
      function->destroy();
    return llvm::Error::success();
  }
};

} // namespace

PassInfo resolveMarkers() {
  return {.name = "resolve-markers",
          .description = "turns calls of pipe_split, scripted, plain or as an operator, into the "
                         "boundary pipec::cut",
          .requires_ = "calls are inlined",
          .guarantees = "no call of a function named pipe_split and no pipec::pipe_split is left",
          .example = R"(
    %y : Tensor = pipec::pipe_split(%x)
    =>
    pipec::cut())",
          .make = withoutOptions<ResolveMarkers>()};
}

} // namespace pipec
