// The plan inside a staged model.
#include "ir/Model.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

/// PyTorch's own PipelineStage hands everything to the next stage: one input at the front, results
/// only at the end, no skip.
bool isChain(const StagedModel &model) {
  for (size_t s = 0; s < model.stages.size(); ++s) {
    for (const StageInput &input : model.stages[s].plan.inputs)
      if (input.kind == StageInput::Kind::UserInput && s != 0)
        return false;
    for (const StageOutput &output : model.stages[s].plan.outputs)
      if (!output.leaves.empty() && s + 1 != model.stages.size())
        return false;
  }
  return llvm::all_of(model.channels, [](const Channel &channel) {
    return channel.kind == Channel::Kind::Activation && !channel.skip && channel.type == "Tensor";
  });
}

} // namespace

Plan StagedModel::plan() const {
  Plan plan;
  plan.sourceDigest = sourceDigest;
  plan.mode = mode;
  plan.chain = isChain(*this);
  plan.signature = signature;
  plan.channels = channels;
  plan.ties = ties;
  for (const Stage &stage : stages) {
    StagePlan entry = stage.plan;
    // Constants live in the code of the stage; they stand last, so no index moves.
    llvm::erase_if(entry.attributes, [](const StageAttribute &attribute) {
      return attribute.kind == AttributeKind::Constant;
    });
    plan.ranks = std::max(plan.ranks, entry.rank + 1);
    plan.stages.push_back(std::move(entry));
  }
  plan.obligations = obligations;
  return plan;
}

} // namespace pipec
