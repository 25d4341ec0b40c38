// Faults in what the plan says besides the graphs.
#include "llvm/ADT/STLExtras.h"
#include "tests/support/faults/Faults.h"

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

bool unrecordedRecompute(StagedModel &model) {
  auto recorded = llvm::find_if(model.obligations, [](const Obligation &obligation) {
    return obligation.kind == Obligation::Kind::Recompute;
  });
  if (recorded == model.obligations.end())
    return false;
  model.obligations.erase(recorded);
  return true;
}

bool claimedRecompute(StagedModel &model) {
  model.obligations.push_back(Obligation::recompute("aten::size", 100, 0));
  return true;
}

bool falseFact(StagedModel &model) {
  if (model.signature.inputs.empty())
    return false;
  model.obligations.push_back(
      Obligation::fact("input " + model.signature.inputs[0].name, "rank", "9"));
  return true;
}

bool lossyPlan(StagedModel &model) {
  for (Channel &channel : model.channels)
    if (channel.type == "Tensor" && !channel.tensor.known) {
      Dim unknownButFive; // its text is "?"
      unknownButFive.dynamic = true;
      unknownButFive.constant = 5;
      channel.tensor.known = true;
      channel.tensor.dtype = "float32";
      channel.tensor.shape = channel.tensor.strides = {unknownButFive};
      return true;
    }
  return false;
}

} // namespace pipec::faults
