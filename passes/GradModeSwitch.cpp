#include "passes/GradModeSwitch.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

static c10::Symbol askingKind() { return c10::Symbol::aten("is_grad_enabled"); }
static c10::Symbol settingKind() { return c10::Symbol::aten("set_grad_enabled"); }

Node *switchGradientsOff(Node *node) {
  Graph &graph = *node->owningGraph();
  torch::jit::WithInsertPoint guard(node);
  const auto insert = [&](Node *made) { return graph.insertNode(made)->copyMetadata(node); };
  Value *off = graph.insertConstant(false), *on = graph.insertConstant(true);
  Node *asks = insert(graph.create(askingKind(), 1));
  asks->output()->setType(c10::BoolType::get());
  Node *choice = insert(graph.create(c10::prim::If, {asks->output()}, 0));
  for (const bool switches : {true, false}) {
    Block *block = choice->addBlock();
    torch::jit::WithInsertPoint inside(block);
    if (switches)
      insert(graph.create(settingKind(), {off}, 0));
    Node *copy = insert(graph.createClone(node, [](Value *input) { return input; }));
    if (switches)
      insert(graph.create(settingKind(), {on}, 0));
    for (Value *output : copy->outputs())
      block->registerOutput(output);
  }
  for (Value *output : node->outputs())
    output->replaceAllUsesWith(choice->addOutput()->setType(output->type()));
  node->destroy();
  return choice;
}

bool switchesGradientsOff(const Node *node) {
  if (node->kind() != c10::prim::If || node->input()->node()->kind() != askingKind())
    return false;
  std::vector<c10::Symbol> kinds;
  for (const Node *inner : node->blocks()[0]->nodes())
    kinds.push_back(inner->kind());
  return kinds.size() == 3 && kinds.front() == settingKind() && kinds.back() == settingKind();
}

} // namespace pipec
