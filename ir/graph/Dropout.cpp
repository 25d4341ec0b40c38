#include "ir/graph/Dropout.h"

#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "ir/support/Llvm.h"
#include "llvm/ADT/StringRef.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// An argument, and the value with which the operator drops nothing.
struct Switch {
  size_t argument;
  c10::IValue off;
};

/// The rate where the operator does more than dropout: a recurrent network has its flag of training
/// for more, too.
std::optional<Switch> switchOf(const jit::Node *node) {
  const llvm::StringRef name = node->kind().toQualString();
  if (!isRandomOp(name) || name.contains("rrelu")) // rrelu draws slopes
    return std::nullopt;
  for (const auto &[argument, off] : {std::pair<const char *, c10::IValue>("dropout_p", 0.0),
                                      {"dropout", 0.0},
                                      {"train", false},
                                      {"training", false}})
    if (const std::optional<size_t> index = inputIndex(node, argument))
      return Switch{*index, off};
  return std::nullopt;
}

/// Whether the operator returns its input when it is off, although it otherwise makes a new tensor.
bool returnsInput(const jit::Node *node, const Switch &found) {
  return found.off.isBool() && !endsWith(node->kind().toUnqualString(), "_");
}

} // namespace

bool drawsOtherThanDropout(jit::Node *node) {
  return drawsOf(node) != Draws::Never && !switchOf(node);
}

void turnOffDropout(jit::Block *block) {
  for (jit::Node *node : block->nodes()) {
    for (jit::Block *inner : node->blocks())
      turnOffDropout(inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      turnOffDropout(node->g(c10::attr::Subgraph)->block());
    const std::optional<Switch> found = switchOf(node);
    if (!found)
      continue;
    jit::WithInsertPoint before(node);
    jit::Graph &graph = *node->owningGraph();
    node->replaceInput(found->argument, graph.insertConstant(found->off));
    if (returnsInput(node, *found))
      node->replaceInput(0, graph.insert(c10::aten::clone, {node->input(0)}));
  }
}

void turnOffDropout(const jit::Module &module) {
  for (jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graphFunction = jit::tryToGraphFunction(*function))
      turnOffDropout(graphFunction->graph()->block());
}

} // namespace pipec
