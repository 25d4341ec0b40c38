#include "compiler/faults/GraphEdits.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec::faults {

size_t usesOf(const Stage &stage, size_t input) {
  return stage.graph->inputs()[input]->uses().size();
}

bool haveOneType(const Stage &stage, size_t a, size_t b) {
  return *stage.graph->inputs()[a]->type() == *stage.graph->inputs()[b]->type();
}

void exchangeInputs(Stage &stage, size_t a, size_t b) {
  torch::jit::Value *first = stage.graph->inputs()[a], *second = stage.graph->inputs()[b];
  const std::vector<torch::jit::Use> usesOfFirst = first->uses(), usesOfSecond = second->uses();
  for (const torch::jit::Use &use : usesOfFirst)
    use.user->replaceInput(use.offset, second);
  for (const torch::jit::Use &use : usesOfSecond)
    use.user->replaceInput(use.offset, first);
}

bool exchangeOutputs(Stage &stage, size_t a, size_t b) {
  torch::jit::Block *block = stage.graph->block();
  torch::jit::Value *first = block->outputs()[a], *second = block->outputs()[b];
  block->replaceOutput(a, second);
  block->replaceOutput(b, first);
  return first != second;
}

void returnInput(Stage &stage, size_t output, size_t input) {
  stage.graph->block()->replaceOutput(output, stage.graph->inputs()[input]);
}

void eraseInput(Stage &stage, size_t input) { stage.graph->eraseInput(input); }

void eraseOutput(Stage &stage, size_t output) { stage.graph->eraseOutput(output); }

} // namespace pipec::faults
