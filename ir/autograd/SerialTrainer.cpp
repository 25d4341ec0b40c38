#include "ir/autograd/SerialTrainer.h"

#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/autograd/StateVersions.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/support/Try.h"

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace pipec {

namespace {

/// State of the generator that random operators of this process draw from.
at::Tensor generatorState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void setGeneratorState(const at::Tensor &state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

} // namespace

llvm::Expected<SerialTrainer> SerialTrainer::load(const std::string &directory, const Plan &plan,
                                                  SerialWay way) {
  SerialStages stages = TRY(SerialStages::load(directory, plan));
  return SerialTrainer(plan, std::move(stages).take(), std::move(way));
}

SerialTrainer::SerialTrainer(const Plan &plan, std::vector<StageModule> stages, SerialWay way)
    : plan_(&plan), way_(std::move(way)), stages_(std::move(stages)) {
  for (size_t s = 0; s < stages_.size(); ++s)
    written_.push_back(stages_[s].writesInPlace() ? writtenAttributes(plan.stages[s])
                                                  : std::vector<size_t>());
}

std::vector<c10::IValue> SerialTrainer::state(size_t stage) const {
  std::vector<c10::IValue> values;
  for (size_t i : writtenAttributes(plan_->stages[stage]))
    values.push_back(stages_[stage].attribute(i));
  return values;
}

void SerialTrainer::setState(size_t stage, std::vector<c10::IValue> values) {
  const std::vector<size_t> written = writtenAttributes(plan_->stages[stage]);
  for (size_t i = 0; i < written.size(); ++i)
    stages_[stage].setAttribute(written[i], std::move(values[i]));
}

llvm::Expected<StageTape> SerialTrainer::record(size_t stage,
                                                const std::vector<c10::IValue> &inputs) {
  std::vector<TapedAttribute> attributes;
  for (size_t i = 0; i < plan_->stages[stage].attributes.size(); ++i)
    attributes.push_back({stages_[stage].attribute(i), plan_->stages[stage].attributes[i].uses});
  return StageTape::record(
      inputs, attributes, [&](std::vector<c10::IValue> given, llvm::ArrayRef<c10::IValue> weights) {
        return stages_[stage].run(std::move(given), weights);
      });
}

llvm::Error SerialTrainer::runStage(size_t stage, const std::vector<c10::IValue> &inputs,
                                    InFlight &flight) {
  const StagePlan &plan = plan_->stages[stage];
  TrainedMicroBatch &result = flight.result;
  std::vector<c10::IValue> arguments;
  for (const StageInput &input : plan.inputs)
    arguments.push_back(input.kind == StageInput::Kind::UserInput ? inputs[input.index]
                                                                  : result.sent[input.index]);
  InFlight::OfStage &own = flight.stages.emplace_back();
  const bool recomputes = llvm::is_contained(way_.recompute, stage);
  TRY(guardTorchVoid(ExitCode::Usage, "copying its state", [&] {
    if (!written_[stage].empty())
      StateRenewal().renew(stages_[stage], plan, written_[stage]);
    if (recomputes) { // the stage may write into its inputs
      own.inputs = copiesThatShare(arguments);
      own.state = copiesThatShare(state(stage));
      own.generator = generatorState();
    }
  }));
  StageTape tape = TRY(record(stage, arguments));
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    for (size_t channel : plan.outputs[i].channels)
      result.sent[channel] = tape.outputs()[i];
    for (size_t leaf : plan.outputs[i].leaves)
      result.leaves[leaf] = tape.outputs()[i];
  }
  if (way_.split[stage])
    result.whyWhole[stage] = tape.whyWhole();
  if (!recomputes)
    own.tape = std::move(tape);
  return llvm::Error::success();
}

/// The forward once more, from the state that it saw; nothing else changes.
llvm::Error SerialTrainer::recompute(size_t stage, InFlight::OfStage &flight) {
  const at::Tensor generator = generatorState();
  std::vector<c10::IValue> now = state(stage);
  setState(stage, std::move(flight.state));
  setGeneratorState(flight.generator);
  llvm::Expected<StageTape> tape = record(stage, flight.inputs);
  setState(stage, std::move(now));
  setGeneratorState(generator);
  flight.inputs.clear();
  if (!tape)
    return tape.takeError();
  flight.tape = std::move(*tape);
  return llvm::Error::success();
}

llvm::Expected<SerialTrainer::InFlight>
SerialTrainer::forward(const std::vector<c10::IValue> &inputs) {
  InFlight flight;
  flight.result.leaves.resize(plan_->signature.leaves.size());
  flight.result.sent.resize(plan_->channels.size());
  flight.result.gradients.resize(stages_.size());
  flight.result.whyWhole.resize(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s)
    if (llvm::Error error = runStage(s, inputs, flight))
      return withContext(std::move(error), fmt::format("stage {}", s));
  return flight;
}

namespace {

/// Gradients of the backward so far, by channel: the sum of what the stages so far found.
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

llvm::Expected<TrainedMicroBatch> SerialTrainer::backward(InFlight flight, size_t loss,
                                                          const at::Tensor &scale) {
  TrainedMicroBatch &result = flight.result;
  const auto isSplit = [&](size_t s) { return way_.split[s] && result.whyWhole[s].empty(); };
  ChannelGradients channels(plan_->channels.size());
  const c10::IValue &leaf = result.leaves[loss];
  const bool hasShape = leaf.isTensor() && leaf.toTensor().defined(); // [] or [1]
  const at::Tensor root = hasShape ? scale.expand(leaf.toTensor().sizes()) : scale;
  for (size_t s = stages_.size(); s-- > 0;) {
    if (!flight.stages[s].tape)
      if (llvm::Error error = recompute(s, flight.stages[s]))
        return withContext(std::move(error), fmt::format("stage {}: its recompute", s));
    StageTape &tape = *flight.stages[s].tape;
    const StagePlan &stage = plan_->stages[s];
    std::vector<ValueGradients> later;
    for (const StageInput &input : stage.inputs)
      later.push_back(input.kind == StageInput::Kind::Channel ? std::move(channels[input.index])
                                                              : ValueGradients());
    std::vector<ValueGradients> outputs = ofOutputs(stage, channels, loss, root);
    llvm::Expected<StageGradients> found =
        isSplit(s) ? tape.inputGradients(std::move(outputs), std::move(later))
                   : tape.backward(std::move(outputs), std::move(later));
    if (!found)
      return withContext(found.takeError(), fmt::format("stage {}", s));
    for (size_t port = 0; port < stage.inputs.size(); ++port)
      if (const StageInput &input = stage.inputs[port];
          input.kind == StageInput::Kind::Channel &&
          (!way_.followsFlags || carriesGradient(*plan_, plan_->channels[input.index])))
        channels[input.index] = std::move(found->inputs[port]);
    result.gradients[s] = std::move(found->attributes);
    if (!isSplit(s))
      flight.stages[s].tape.reset();
  }
  for (size_t s = 0; s < stages_.size(); ++s)
    if (isSplit(s)) {
      llvm::Expected<std::vector<ValueGradients>> found = flight.stages[s].tape->weightGradients();
      if (!found)
        return withContext(found.takeError(), fmt::format("stage {}", s));
      result.gradients[s] = std::move(*found);
      flight.stages[s].tape.reset();
    }
  return std::move(result);
}

llvm::Expected<TrainedMicroBatch> SerialTrainer::run(const std::vector<c10::IValue> &inputs,
                                                     size_t loss, const at::Tensor &scale) {
  InFlight flight = TRY(forward(inputs));
  return backward(std::move(flight), loss, scale);
}

} // namespace pipec
