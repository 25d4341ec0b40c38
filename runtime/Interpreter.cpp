#include "runtime/Interpreter.h"

#include "ir/TorchError.h"

namespace pipec {

Interpreter::Interpreter(RankProgram program,
                         const std::vector<std::unique_ptr<StageExecutor>> &executors,
                         Transport &transport, Device &device)
    : program_(std::move(program)), executors_(executors), transport_(transport), device_(device),
      slots_(program_.slots), busy_(program_.steps.size()) {}

llvm::Error Interpreter::run(StepData &data) {
  failedMicroBatch_.reset();
  llvm::Error error = runSteps(data);
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
    llvm::Error error = llvm::Error::success();
    switch (step.kind) {
    case OpKind::Forward:
      error = forward(step, data, busy_[i]);
      if (error)
        failedMicroBatch_ = step.microBatch;
      break;
    case OpKind::Post:
      error = transport_.post(step.lane, step.channel, step.microBatch);
      break;
    case OpKind::Send:
      error = send(step);
      break;
    case OpKind::Take:
      error = take(step);
      break;
    default: // resolve() refuses ops that are not for inference
      error = failf(ExitCode::Internal, "step {}: not an op of an inference", i);
    }
    if (error)
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Interpreter::forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy) {
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
    if (source.userInput && !device_.where().is_cpu())
      if (llvm::Error error =
              guardTorchVoid(ExitCode::Other, executor.title() + ": moving an input", [&] {
                std::unique_ptr<Device::Scope> stream = device_.enter(executor.stream());
                inputs[i].value = device_.bringInput(std::move(inputs[i].value));
              }))
        return error;
  }
  RandomKey key{data.seed, data.step, static_cast<uint64_t>(step.microBatch)};
  llvm::Expected<std::vector<c10::IValue>> outputs = executor.forward(key, std::move(inputs), busy);
  if (!outputs)
    return outputs.takeError();
  if (outputs->size() != step.outputs.size())
    return failf(ExitCode::BadArtifact, "{}: expected {} outputs, got {}", executor.title(),
                 step.outputs.size(), outputs->size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    for (size_t slot : step.outputs[i].slots)
      slots_[slot] = {(*outputs)[i], busy.second};
    for (size_t leaf : step.outputs[i].leaves)
      data.leaves[step.microBatch][leaf] = (*outputs)[i];
  }
  return llvm::Error::success();
}

llvm::Error Interpreter::send(const Step &step) {
  std::unique_ptr<Device::Scope> stream = device_.enter(executors_[step.stage]->stream());
  c10::IValue value = step.last ? std::move(slots_[step.slot].value) : slots_[step.slot].value;
  return transport_.send(step.lane, step.channel, step.microBatch, std::move(value));
}

llvm::Error Interpreter::take(const Step &step) {
  std::unique_ptr<Device::Scope> stream = device_.enter(executors_[step.stage]->stream());
  llvm::Expected<c10::IValue> value = transport_.take(step.lane, step.channel, step.microBatch);
  if (!value)
    return value.takeError();
  slots_[step.slot] = {std::move(*value), device_.mark()};
  return llvm::Error::success();
}

int64_t Interpreter::addTimes(std::vector<int64_t> &stageBusyNs) {
  const std::pair<Fence, Fence> *first = nullptr, *last = nullptr;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    if (program_.steps[i].kind != OpKind::Forward)
      continue;
    stageBusyNs[program_.steps[i].stage] += device_.nsBetween(busy_[i].first, busy_[i].second);
    first = first ? first : &busy_[i];
    last = &busy_[i];
  }
  return first ? device_.nsBetween(first->first, last->second) : 0;
}

} // namespace pipec
