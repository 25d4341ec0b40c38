#include "compiler/verify/WithoutDerivative.h"

#include "ir/NodeInfo.h"
#include "ir/autograd/BackwardErrors.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

std::vector<std::string> withoutDerivative(llvm::StringRef message, const StagedModel &stages) {
  const std::string name = operatorWithoutDerivative(message);
  std::vector<std::string> found;
  if (name.empty())
    return found;
  for (const Stage &stage : stages.stages)
    anyNodeInside(stage.graph->block(), [&](torch::jit::Node *node) {
      if (name == node->kind().toUnqualString())
        if (std::string text = describeNode(node); !llvm::is_contained(found, text))
          found.push_back(std::move(text));
      return false;
    });
  return found;
}

} // namespace pipec
