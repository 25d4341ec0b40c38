#include "ir/artifact/SerialRunner.h"

#include "ir/InferenceSettings.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

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
