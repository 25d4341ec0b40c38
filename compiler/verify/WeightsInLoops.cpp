#include "compiler/verify/WeightsInLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

static bool isInLoop(const torch::jit::Use &use) {
  for (const torch::jit::Node *owner = use.user->owningBlock()->owningNode(); owner;
       owner = owner->owningBlock()->owningNode())
    if (owner->kind() == c10::prim::Loop)
      return true;
  return false;
}

std::string usesBesideALoop(const Stage &stage) {
  for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
    const torch::jit::Value &weight = *stage.graph->inputs()[stage.plan.inputs.size() + i];
    if (stage.plan.attributes[i].uses > 1 && llvm::any_of(weight.uses(), isInLoop))
      return "a weight has several uses, and a loop has one of them";
  }
  return {};
}

} // namespace pipec
