#include "runtime/Interpreter.h"

#include "ir/TorchError.h"

namespace pipec {

namespace {

bool computes(OpKind kind) {
  return kind == OpKind::Forward || kind == OpKind::Backward || kind == OpKind::InputGrad ||
         kind == OpKind::WeightGrad || kind == OpKind::Recompute;
}

} // namespace

Interpreter::Interpreter(RankProgram program,
                         const std::vector<std::unique_ptr<StageExecutor>> &executors,
                         Transport &transport, Device &device,
                         std::unique_ptr<RankTraining> training)
    : program_(std::move(program)), executors_(executors), transport_(transport), device_(device),
      training_(std::move(training)), slots_(program_.slots), busy_(program_.steps.size()) {}

llvm::Error Interpreter::run(StepData &data) {
  failedMicroBatch_.reset();
  if (training_)
    training_->begin();
  llvm::Error error = runSteps(data);
  if (!error && training_)
    error = training_->end(data.training);
  if (error) {
    for (ReadyValue &slot : slots_)
      slot = ReadyValue();
    return error;
  }
  return guardTorchVoid(ExitCode::Other, "finishing", [&] { device_.finish(); });
}

llvm::Error Interpreter::runSteps(StepData &data) {
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step &step = program_.steps[i];
    if (data.failed)
      return makeError(ExitCode::Other, "another rank failed");
    if (llvm::Error error = runStep(step, data, busy_[i])) {
      if (computes(step.kind))
        failedMicroBatch_ = step.microBatch;
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Interpreter::runStep(const Step &step, StepData &data, std::pair<Fence, Fence> &busy) {
  switch (step.kind) {
  case OpKind::Forward:
    return forward(step, data, busy);
  case OpKind::Post:
    return transport_.post(step.lane, step.message, step.microBatch);
  case OpKind::Send:
    return send(step);
  case OpKind::Take:
    return take(step);
  case OpKind::Backward:
  case OpKind::InputGrad:
    return training_->backward(step, data.leaves[step.microBatch], data.training, slots_, busy);
  case OpKind::WeightGrad:
    return training_->stage(step.stage).weightGradients(step.microBatch, busy);
  case OpKind::Recompute:
    return training_->stage(step.stage).recompute(step.microBatch, busy);
  case OpKind::TieReduce:
    return training_->reduceTie(step);
  case OpKind::Norm:
    return training_->norm(step, data.leaves, data.training);
  case OpKind::Optimize:
    return training_->optimize(step, data.training);
  case OpKind::Reduce:
  case OpKind::Finite:
    break;
  }
  return makeError(ExitCode::Internal, "an op that resolve() refuses");
}

llvm::Expected<std::vector<ReadyValue>> Interpreter::inputsOf(const Step &step,
                                                              const StepData &data) {
  StageExecutor &executor = *executors_[step.stage];
  std::vector<ReadyValue> inputs(step.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSource &source = step.inputs[i];
    if (source.userInput)
      inputs[i].value = data.inputs[step.microBatch][source.index];
    else if (source.last)
      inputs[i] = std::move(slots_[source.index]);
    else
      inputs[i] = slots_[source.index];
    if (source.userInput && device_.hasStreams())
      if (llvm::Error error =
              guardTorchVoid(ExitCode::Other, executor.title() + ": moving an input", [&] {
                std::unique_ptr<Device::Scope> stream = device_.enter(executor.stream());
                inputs[i].value = device_.bringInput(std::move(inputs[i].value));
              }))
        return std::move(error);
  }
  return inputs;
}

llvm::Error Interpreter::forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy) {
  StageExecutor &executor = *executors_[step.stage];
  llvm::Expected<std::vector<ReadyValue>> inputs = inputsOf(step, data);
  if (!inputs)
    return inputs.takeError();
  RandomKey key{data.seed, data.step, static_cast<uint64_t>(step.microBatch)};
  llvm::Expected<std::vector<c10::IValue>> outputs =
      training_ ? training_->stage(step.stage)
                      .forward(key, std::move(*inputs), {step.split, step.recompute}, busy)
                : executor.forward(key, std::move(*inputs), busy);
  if (!outputs)
    return outputs.takeError();
  if (outputs->size() != step.outputs.size())
    return failf(ExitCode::BadArtifact, "{}: expected {} outputs, got {}", executor.title(),
                 step.outputs.size(), outputs->size());
  if (training_)
    if (llvm::Error error = checkFlags(step, *outputs))
      return error;
  for (size_t i = 0; i < outputs->size(); ++i) {
    for (size_t slot : step.outputs[i].slots)
      slots_[slot] = {(*outputs)[i], busy.second};
    for (size_t leaf : step.outputs[i].leaves)
      if (!training_ || training_->keepsLeaf(leaf))
        data.leaves[step.microBatch][leaf] = (*outputs)[i];
  }
  return llvm::Error::success();
}

/// A gradient that the plan does not know would be lost.
llvm::Error Interpreter::checkFlags(const Step &step,
                                    const std::vector<c10::IValue> &outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (step.outputs[i].noGradient && outputs[i].isTensor() &&
        mayHaveGradient(outputs[i].toTensor()))
      return failf(ExitCode::BadArtifact,
                   "{}, output {}: expected a tensor without a gradient, as the plan says, got one "
                   "that requires it",
                   executors_[step.stage]->title(), i);
  return llvm::Error::success();
}

llvm::Error Interpreter::send(const Step &step) {
  std::unique_ptr<Device::Scope> stream = device_.enter(executors_[step.stage]->stream());
  c10::IValue value;
  if (step.payload == Payload::Activation || step.payload == Payload::Gradient)
    device_.waitFor(slots_[step.slot].ready); // another stage of this rank may have made it
  if (step.payload == Payload::Weight)
    value = training_->weight(step.channel);
  else if (step.payload == Payload::WeightGradient)
    value = training_->weightGradients(step.channel);
  else if (step.last || step.payload == Payload::Gradient)
    value = std::move(slots_[step.slot].value);
  else
    value = slots_[step.slot].value;
  return transport_.send(step.lane, step.message, step.microBatch, std::move(value));
}

llvm::Error Interpreter::take(const Step &step) {
  std::unique_ptr<Device::Scope> stream = device_.enter(executors_[step.stage]->stream());
  llvm::Expected<c10::IValue> value = transport_.take(step.lane, step.message, step.microBatch);
  if (!value)
    return value.takeError();
  if (step.payload == Payload::Weight)
    training_->takeWeight(step.channel, *value, device_.mark());
  else if (step.payload == Payload::WeightGradient)
    training_->takeWeightGradients(step.channel, *value, device_.mark());
  else
    slots_[step.slot] = {std::move(*value), device_.mark()};
  return llvm::Error::success();
}

int64_t Interpreter::addTimes(std::vector<int64_t> &stageBusyNs) {
  const std::pair<Fence, Fence> *first = nullptr, *last = nullptr;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    if (!computes(program_.steps[i].kind))
      continue;
    stageBusyNs[program_.steps[i].stage] += device_.nsBetween(busy_[i].first, busy_[i].second);
    first = first ? first : &busy_[i];
    last = &busy_[i];
  }
  return first ? device_.nsBetween(first->first, last->second) : 0;
}

} // namespace pipec
