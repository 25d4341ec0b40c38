#include "ir/autograd/SerialTrainer.h"

#include "ir/autograd/GradSum.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

llvm::Expected<SerialTrainer> SerialTrainer::load(const std::string &directory, const Plan &plan) {
  SerialTrainer trainer;
  trainer.plan_ = &plan;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    llvm::Expected<StageModule> stage =
        StageModule::load(directory + "/" + plan.stages[s].file, plan.stages[s]);
    if (!stage)
      return withContext(stage.takeError(), fmt::format("stage {}", s));
    stage->silence();
    trainer.stages_.push_back(std::move(*stage));
  }
  for (const Channel &channel : plan.channels)
    if (channel.kind == Channel::Kind::Weight)
      for (const PortRef &to : channel.to)
        trainer.stages_[to.stage].setAttribute(
            to.port, trainer.stages_[channel.from.stage].attribute(channel.from.port));
  return trainer;
}

llvm::Expected<StageTape> SerialTrainer::forward(size_t stage,
                                                 const std::vector<c10::IValue> &inputs,
                                                 WeightUses uses, TrainedMicroBatch &result) {
  const StagePlan &plan = plan_->stages[stage];
  std::vector<c10::IValue> arguments;
  for (const StageInput &input : plan.inputs)
    arguments.push_back(input.kind == StageInput::Kind::UserInput ? inputs[input.index]
                                                                  : result.sent[input.index]);
  std::vector<TapedAttribute> attributes;
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    attributes.push_back({stages_[stage].attribute(i), plan.attributes[i].uses});
  llvm::Expected<StageTape> tape =
      StageTape::record(arguments, attributes, uses,
                        [&](std::vector<c10::IValue> given, std::vector<c10::IValue> weights) {
                          return stages_[stage].run(std::move(given), std::move(weights));
                        });
  if (!tape)
    return withContext(tape.takeError(), fmt::format("stage {}", stage));
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    for (size_t channel : plan.outputs[i].channels)
      result.sent[channel] = tape->outputs()[i];
    for (size_t leaf : plan.outputs[i].leaves)
      result.leaves[leaf] = tape->outputs()[i];
  }
  return tape;
}

namespace {

/// Gradients on their way back, by channel: the sum of what the stages so far found.
using ChannelGradients = std::vector<ValueGradients>;

/// The gradients of a stage's outputs, from their channels and the loss. A value with several
/// channels gets the sum over them, added from the channel made last to the first.
std::vector<ValueGradients> ofOutputs(const StagePlan &stage, ChannelGradients &channels,
                                      size_t loss, const at::Tensor &scale) {
  std::vector<ValueGradients> result;
  for (const StageOutput &output : stage.outputs) {
    ValueGradients &sum = result.emplace_back();
    auto add = [&](ValueGradients more) {
      if (sum.empty())
        sum.resize(more.size());
      for (size_t i = 0; i < more.size(); ++i)
        addGradient(sum[i], more[i]);
    };
    for (size_t channel : llvm::reverse(output.channels))
      add(std::move(channels[channel]));
    if (llvm::is_contained(output.leaves, loss))
      add({scale});
  }
  return result;
}

} // namespace

llvm::Expected<TrainedMicroBatch> SerialTrainer::run(const std::vector<c10::IValue> &inputs,
                                                     size_t loss, const at::Tensor &scale,
                                                     const std::vector<bool> &split) {
  TrainedMicroBatch result;
  result.leaves.resize(plan_->signature.leaves.size());
  result.sent.resize(plan_->channels.size());
  result.gradients.resize(stages_.size());
  result.whyWhole.resize(stages_.size());
  std::vector<StageTape> tapes;
  for (size_t s = 0; s < stages_.size(); ++s) {
    llvm::Expected<StageTape> tape =
        forward(s, inputs, split[s] ? WeightUses::Apart : WeightUses::Together, result);
    if (!tape)
      return tape.takeError();
    if (split[s])
      result.whyWhole[s] = tape->whyWhole();
    tapes.push_back(std::move(*tape));
  }
  ChannelGradients channels(plan_->channels.size());
  for (size_t s = stages_.size(); s-- > 0;) {
    const StagePlan &stage = plan_->stages[s];
    std::vector<ValueGradients> later;
    for (const StageInput &input : stage.inputs)
      later.push_back(input.kind == StageInput::Kind::Channel ? std::move(channels[input.index])
                                                              : ValueGradients());
    std::vector<ValueGradients> outputs = ofOutputs(stage, channels, loss, scale);
    const bool isWhole = !split[s] || !result.whyWhole[s].empty();
    llvm::Expected<StageGradients> found =
        isWhole ? tapes[s].backward(std::move(outputs), std::move(later))
                : tapes[s].inputGradients(std::move(outputs), std::move(later));
    if (!found)
      return withContext(found.takeError(), fmt::format("stage {}", s));
    for (size_t port = 0; port < stage.inputs.size(); ++port)
      if (stage.inputs[port].kind == StageInput::Kind::Channel)
        channels[stage.inputs[port].index] = std::move(found->inputs[port]);
    result.gradients[s] = std::move(found->attributes);
  }
  for (size_t s = 0; s < stages_.size(); ++s)
    if (split[s] && result.whyWhole[s].empty()) {
      llvm::Expected<std::vector<ValueGradients>> found = tapes[s].weightGradients();
      if (!found)
        return withContext(found.takeError(), fmt::format("stage {}", s));
      result.gradients[s] = std::move(*found);
    }
  return result;
}

} // namespace pipec
