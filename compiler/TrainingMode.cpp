#include "compiler/TrainingMode.h"

#include "ir/NodeInfo.h"
#include "ir/TrainingModules.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;

void collect(Block &block, TrainingModules &found) {
  for (Node *node : block.nodes()) {
    if (isInTrainingMode(node,
                         [](torch::jit::Value *value) { return torch::jit::toIValue(value); }))
      found.add(modulePathOf(node), node);
    for (Block *inner : node->blocks())
      collect(*inner, found);
  }
}

} // namespace

std::string noteOnTrainingMode(const Model &model, bool infer) {
  TrainingModules found;
  collect(*model.graph->block(), found);
  return found.note(infer ? kConstantMode : "--infer compiles them in eval mode" + kUnlessConstant);
}

std::string normsInTrainingMode(const Model &model) {
  TrainingModules found;
  collect(*model.graph->block(), found);
  return found.norms();
}

} // namespace pipec
