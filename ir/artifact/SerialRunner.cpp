#include "ir/artifact/SerialRunner.h"

#include "ir/InferenceSettings.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// State stays as the files have it, because runs write it.
void useInstead(StageModule &stage, const StagePlan &plan,
                const std::map<std::string, at::Tensor> &instead) {
  for (size_t a = 0; a < plan.attributes.size(); ++a) {
    const auto found = instead.find(plan.attributes[a].name);
    if (found == instead.end() || plan.attributes[a].written || plan.attributes[a].channel)
      continue;
    const at::Tensor &own = stage.attribute(a).toTensor(), &other = found->second;
    if (own.scalar_type() == other.scalar_type() && own.sizes() == other.sizes() &&
        own.strides() == other.strides())
      stage.setAttribute(a, other);
  }
}

} // namespace

llvm::Expected<SerialRunner> SerialRunner::load(const std::string &directory, const Plan &plan,
                                                const std::map<std::string, at::Tensor> &instead) {
  SerialRunner runner;
  runner.plan_ = &plan;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    llvm::Expected<StageModule> stage =
        StageModule::load(directory + "/" + plan.stages[s].file, plan.stages[s]);
    if (!stage)
      return withContext(stage.takeError(), fmt::format("stage {}", s));
    useInstead(*stage, plan.stages[s], instead);
    stage->silence();
    if (llvm::Error error = stage->prepare())
      return withContext(std::move(error), fmt::format("stage {}", s));
    runner.stages_.push_back(std::move(*stage));
  }
  shareWeights(plan, runner.stages_);
  return runner;
}

bool SerialRunner::mayUseGenerator() const {
  return llvm::any_of(stages_, [](const StageModule &stage) { return stage.mayUseGenerator(); });
}

llvm::Expected<SerialRunner::Result> SerialRunner::run(std::vector<c10::IValue> inputs) {
  InferenceSettings settings;
  Result result;
  result.leaves.resize(plan_->signature.leaves.size());
  result.sent.resize(plan_->channels.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    std::vector<c10::IValue> arguments;
    for (const StageInput &input : plan_->stages[s].inputs)
      arguments.push_back(input.kind == StageInput::Kind::UserInput ? inputs[input.index]
                                                                    : result.sent[input.index]);
    llvm::Expected<std::vector<c10::IValue>> outputs = stages_[s].run(std::move(arguments));
    if (!outputs)
      return withContext(outputs.takeError(), fmt::format("stage {}", s));
    for (size_t i = 0; i < outputs->size(); ++i) {
      for (size_t channel : plan_->stages[s].outputs[i].channels)
        result.sent[channel] = (*outputs)[i];
      for (size_t leaf : plan_->stages[s].outputs[i].leaves)
        result.leaves[leaf] = (*outputs)[i];
    }
  }
  return result;
}

} // namespace pipec
