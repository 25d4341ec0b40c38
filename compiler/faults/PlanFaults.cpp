// Faults in what the plan says besides the graphs.
#include "compiler/faults/Faults.h"
#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace pipec::faults {

bool wrongRandomKey(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    if (!stage.plan.effects.randomOps.empty()) {
      ++stage.plan.effects.randomOps.back();
      return true;
    }
  return false;
}

bool lostWrittenMark(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
      bool isState = llvm::any_of(stage.plan.outputs,
                                  [&](const StageOutput &output) { return output.state == i; });
      if (stage.plan.attributes[i].written && !isState) {
        stage.plan.attributes[i].written = false;
        return true;
      }
    }
  return false;
}

bool lostRaiseMark(StagedModel &model) {
  for (Stage &stage : model.stages)
    if (std::exchange(stage.plan.effects.raises, false))
      return true;
  return false;
}

namespace {

bool swappedKeys(OutputTree &tree) {
  if (tree.keys.size() > 1) {
    std::swap(tree.keys[0], tree.keys[1]);
    return true;
  }
  return llvm::any_of(tree.children, [](OutputTree &child) { return swappedKeys(child); });
}

} // namespace

bool wrongOutputTree(StagedModel &model) { return swappedKeys(model.signature.outputs); }

bool wrongMerge(StagedModel &model) {
  for (OutputLeaf &leaf : model.signature.leaves)
    if (leaf.merge.kind == MergeRule::Kind::Concat) {
      ++leaf.merge.dim;
      return true;
    }
  return false;
}

bool wrongBatchDim(StagedModel &model) {
  for (InputSpec &input : model.signature.inputs)
    if (input.batchDim) {
      ++*input.batchDim;
      return true;
    }
  return false;
}

bool wrongDefault(StagedModel &model) {
  for (InputSpec &input : model.signature.inputs)
    if (input.defaultValue) {
      input.defaultValue = llvm::json::Value(7);
      return true;
    }
  return false;
}

} // namespace pipec::faults
