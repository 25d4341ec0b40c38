#include "runtime/Interpreter.h"

#include "ir/TorchError.h"
#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"

#include <chrono>

namespace pipec {

namespace {

int64_t nowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void emptyEach(std::vector<std::vector<c10::IValue>> &lists) {
  for (std::vector<c10::IValue> &list : lists)
    list.clear();
}

} // namespace

void StepData::beginLeaves(size_t microBatches, size_t perMicroBatch) {
  leaves.resize(microBatches);
  for (std::vector<c10::IValue> &each : leaves)
    each.assign(perMicroBatch, c10::IValue());
}

void StepData::forgetInputs() { emptyEach(inputs); }
void StepData::forgetLeaves() { emptyEach(leaves); }

Interpreter::Interpreter(RankProgram program,
                         const std::vector<std::unique_ptr<StageExecutor>> &executors,
                         Transport &transport, RankCores &cores, size_t rank, Device &device,
                         std::unique_ptr<RankTraining> training, MicroBatchRange range,
                         int64_t inFlight)
    : program_(std::move(program)), executors_(executors), transport_(transport), cores_(cores),
      rank_(rank), device_(device), training_(std::move(training)), range_(range),
      slots_(program_.slots), busy_(program_.steps.size()), hostTimes_(program_.steps.size()) {
  if (inFlight > 0)
    ready_.emplace(program_, inFlight);
  order_.reserve(program_.steps.size());
}

/// The micro-batches of this replica in all runs of the step so far. Earlier runs may have had
/// another number of them, and so another interpreter.
llvm::ArrayRef<MicroBatchRange> Interpreter::runsOf(const StepData &data) {
  const int64_t replica = range_.first / range_.number;
  runs_.clear();
  for (const MicroBatchRange &run : data.runs)
    runs_.push_back({run.first + replica * run.number, run.number});
  return runs_;
}

llvm::Error Interpreter::run(StepData &data) {
  cores_.settle(rank_);
  const auto done = atScopeEnd([&] { cores_.leave(rank_); });
  failedMicroBatch_.reset();
  if (training_ && data.first() == 0)
    training_->begin();
  if (training_)
    training_->beginRun(runsOf(data));
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
  order_.clear();
  if (!ready_) {
    int64_t reached = nowNs();
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      hostTimes_[i].start = reached;
      TRY(runNext(i, data));
      reached = hostTimes_[i].end;
    }
    return llvm::Error::success();
  }
  ready_->begin();
  while (!ready_->isFinished()) {
    size_t next = TRY(nextReady());
    hostTimes_[next].start = nowNs();
    TRY(runNext(next, data));
    ready_->done(next);
  }
  return llvm::Error::success();
}

llvm::Error Interpreter::runNext(size_t index, StepData &data) {
  const Step &step = program_.steps[index];
  if (data.failed)
    return makeError(ExitCode::Other, "another rank failed");
  if (llvm::Error error = runStep(step, data, busy_[index])) {
    if (isCompute(step.kind))
      failedMicroBatch_ = firstOf(data) + step.microBatch;
    return error;
  }
  hostTimes_[index].end = nowNs();
  order_.push_back(index);
  return llvm::Error::success();
}

/// Waits for other ranks until a step of this one is ready.
llvm::Expected<size_t> Interpreter::nextReady() {
  for (;;) {
    const uint64_t seen = transport_.changes(rank_);
    if (const auto next = ready_->next([&](size_t lane) { return transport_.holds(lane); }))
      return *next;
    TRY(transport_.waitForChange(rank_, seen));
  }
}

llvm::Error Interpreter::runStep(const Step &step, StepData &data, std::pair<Fence, Fence> &busy) {
  const int64_t microBatch = firstOf(data) + step.microBatch; // of the whole step
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
    return training_->backward(step, microBatch, data.leaves[microBatch], data.training, slots_,
                               busy);
  case OpKind::WeightGrad:
    return training_->stage(step.stage).weightGradients(microBatch, busy);
  case OpKind::Recompute:
    return training_->stage(step.stage).recompute(microBatch, busy);
  case OpKind::TieReduce:
  case OpKind::Norm:
  case OpKind::Optimize:
  case OpKind::Reduce:
    break;
  }
  return data.isLast ? endStep(step, data) : llvm::Error::success();
}

/// The ops that come once per step, after the gradients of all its micro-batches.
llvm::Error Interpreter::endStep(const Step &step, StepData &data) {
  if (step.kind == OpKind::Reduce)
    return training_->reduce(step, data.leaves);
  if (step.kind == OpKind::TieReduce)
    return training_->reduceTie(step);
  if (step.kind == OpKind::Norm)
    return training_->norm(step, data.leaves, data.training);
  PIPEC_ASSERT(step.kind == OpKind::Optimize, "all others are handled above");
  return training_->optimize(step, data.training);
}

llvm::Error Interpreter::takeInputs(const Step &step, const StepData &data) {
  StageExecutor &executor = *executors_[step.stage];
  inputs_.resize(step.inputs.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const InputSource &source = step.inputs[i];
    if (source.userInput)
      inputs_[i].value = data.inputs[firstOf(data) + step.microBatch][source.index];
    else if (source.last)
      inputs_[i] = std::move(slots_[source.index]);
    else
      inputs_[i] = slots_[source.index];
    if (source.userInput && device_.hasStreams())
      if (llvm::Error error = guardTorchVoid(ExitCode::Other, "moving an input", [&] {
            std::unique_ptr<Device::Scope> stream = device_.enter(executor.stream());
            inputs_[i].value = device_.bringInput(std::move(inputs_[i].value));
          }))
        return withContext(std::move(error), executor.title());
  }
  return llvm::Error::success();
}

llvm::Error Interpreter::forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy) {
  StageExecutor &executor = *executors_[step.stage];
  auto forgetInputs = atScopeEnd([&] { inputs_.clear(); });
  TRY(takeInputs(step, data));
  RandomKey key{data.seed, data.step, static_cast<uint64_t>(firstOf(data) + step.microBatch)};
  std::vector<c10::IValue> outputs =
      TRY(training_ ? training_->stage(step.stage).forward(key, inputs_, step.recompute, busy)
                    : executor.forward(key, inputs_, busy));
  if (outputs.size() != step.outputs.size())
    return failf(ExitCode::BadArtifact, "{}: expected {} outputs, got {}", executor.title(),
                 step.outputs.size(), outputs.size());
  if (training_)
    TRY(checkFlags(step, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t slot : step.outputs[i].slots)
      slots_[slot] = {outputs[i], busy.second};
    for (size_t leaf : step.outputs[i].leaves)
      if (!training_ || training_->keepsLeaf(leaf))
        data.leaves[firstOf(data) + step.microBatch][leaf] = outputs[i];
  }
  executor.reuse(std::move(outputs));
  return llvm::Error::success();
}

/// A gradient that the plan does not know would be lost. The compile expects one wherever it sees
/// that a run may give one; what is an integer in the example, and a number here, it cannot expect.
llvm::Error Interpreter::checkFlags(const Step &step,
                                    const std::vector<c10::IValue> &outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (step.outputs[i].noGradient && outputs[i].isTensor() &&
        mayHaveGradient(outputs[i].toTensor()))
      return makeError(
          ExitCode::Usage,
          fmt::format("{}, output {}: expected a tensor without a gradient, as the plan says, got "
                      "one that requires it",
                      executors_[step.stage]->title(), i),
          "the run took a path that the example did not take; compile again with an example that "
          "takes it as a second --inputs");
  return llvm::Error::success();
}

llvm::Error Interpreter::send(const Step &step) {
  // The stream of the stage that made the value: nothing is to be waited for.
  std::unique_ptr<Device::Scope> stream = device_.enter(executors_[step.stage]->stream());
  c10::IValue value;
  if (step.payload == Payload::Weight)
    value = training_->weight(step.lane, step.channel);
  else if (step.payload == Payload::WeightGradient)
    value = training_->weightGradients(step.channel);
  else if (step.last || step.payload == Payload::Gradient)
    value = std::move(slots_[step.slot].value);
  else
    value = slots_[step.slot].value;
  return transport_.send(step.lane, step.message, step.microBatch, std::move(value));
}

llvm::Error Interpreter::take(const Step &step) {
  std::unique_ptr<Device::Scope> stream =
      device_.enter(executors_[step.stage]->arrivalsOf(step.payload));
  c10::IValue value = TRY(transport_.take(step.lane, step.message, step.microBatch));
  cores_.settle(rank_); // it may have slept
  if (step.payload == Payload::Weight)
    training_->takeWeight(step.channel, value, device_.mark());
  else if (step.payload == Payload::WeightGradient)
    training_->takeWeightGradients(step, value, device_.mark());
  else
    slots_[step.slot] = {std::move(value), device_.mark()};
  return llvm::Error::success();
}

std::vector<Timing::Interval> Interpreter::times() {
  std::vector<Timing::Interval> times;
  times.reserve(order_.size());
  // All others are placed from the first one. A GPU's events have no host time: its first work
  // counts as begun when the host got to it.
  const Fence *first = nullptr;
  int64_t begun = 0;
  for (size_t i : order_) {
    if (!isCompute(program_.steps[i].kind)) {
      times.push_back(hostTimes_[i]);
      continue;
    }
    if (!first) {
      first = &busy_[i].first;
      begun = first->event ? hostTimes_[i].start : first->hostNs;
    }
    times.push_back({begun + device_.nsBetween(*first, busy_[i].first),
                     begun + device_.nsBetween(*first, busy_[i].second)});
  }
  return times;
}

int64_t Interpreter::addTimes(std::vector<int64_t> &stageBusyNs) {
  const std::pair<Fence, Fence> *first = nullptr, *last = nullptr;
  for (size_t i : order_) {
    if (!isCompute(program_.steps[i].kind))
      continue;
    stageBusyNs[program_.steps[i].stage] += device_.nsBetween(busy_[i].first, busy_[i].second);
    first = first ? first : &busy_[i];
    last = &busy_[i];
  }
  return first ? device_.nsBetween(first->first, last->second) : 0;
}

} // namespace pipec
