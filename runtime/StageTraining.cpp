#include "runtime/StageTraining.h"

#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/autograd/StateVersions.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <c10/core/GradMode.h>

namespace pipec {

namespace {

std::vector<ReadyValue> ownInputs(llvm::ArrayRef<ReadyValue> inputs) {
  std::vector<c10::IValue> values;
  for (const ReadyValue &input : inputs)
    values.push_back(input.value);
  values = copiesThatShare(values);
  std::vector<ReadyValue> copies = inputs.vec();
  for (size_t i = 0; i < copies.size(); ++i)
    copies[i].value = std::move(values[i]);
  return copies;
}

} // namespace

StageTraining::StageTraining(StageExecutor &executor, const StagePlan &plan, bool canSplit)
    : executor_(executor), plan_(plan), canSplit_(canSplit), sums_(plan.attributes.size()) {}

void StageTraining::freeze(size_t attribute) {
  at::Tensor tensor = executor_.module().attribute(attribute).toTensor();
  tensor.requires_grad_(false);
}

llvm::Error StageTraining::addOptimizer(const OptimizerSettings &settings, size_t parameter,
                                        const std::string &name, size_t attribute) {
  OwnedParameter owned = TRY(ownedParameter(settings, settings.each[parameter], name,
                                            executor_.module().attribute(attribute).toTensor()));
  owned_.push_back(attribute);
  optimizer_.add(std::move(owned));
  return llvm::Error::success();
}

void StageTraining::begin() {
  tapes_.clear();
  again_.clear();
  whole_.clear();
  early_.clear();
  sums_.assign(sums_.size(), at::Tensor());
  kept_.clear();
  nextToFold_ = 0;
}

llvm::Error StageTraining::noteTape(int64_t microBatch, StageTape tape) {
  if (!tapes_.emplace(microBatch, std::move(tape)).second)
    return failf(ExitCode::Internal, "{}, micro-batch {}: a second forward before its backward",
                 executor_.title(), microBatch);
  return llvm::Error::success();
}

llvm::Expected<std::vector<c10::IValue>>
StageTraining::forward(const RandomKey &key, llvm::MutableArrayRef<ReadyValue> inputs,
                       const ForwardShape &shape, std::pair<Fence, Fence> &busy) {
  const auto microBatch = static_cast<int64_t>(key.microBatch);
  const WeightUses uses = shape.split && canSplit_ ? WeightUses::Apart : WeightUses::Together;
  if (shape.recompute)
    TRY(executor_.onStream(microBatch, "copying its inputs", [&] {
      for (ReadyValue &input : inputs)
        executor_.receive(input);
      again_[microBatch] = {key, executor_.writesInPlace() ? ownInputs(inputs) : inputs.vec(),
                            copiesThatShare(executor_.state()), uses};
      return llvm::Error::success();
    }));
  StageTape tape = TRY(executor_.record(key, inputs, uses, busy));
  std::vector<c10::IValue> outputs = tape.takeOutputs();
  // A recompute makes it again: what autograd kept is freed here.
  if (!shape.recompute)
    TRY(noteTape(microBatch, std::move(tape)));
  return outputs;
}

llvm::Error StageTraining::recompute(int64_t microBatch, std::pair<Fence, Fence> &busy) {
  const auto found = again_.find(microBatch);
  if (found == again_.end())
    return failf(ExitCode::Internal, "{}, micro-batch {}: recomputed before its forward",
                 executor_.title(), microBatch);
  Again again = std::move(found->second);
  again_.erase(found);
  std::vector<c10::IValue> now = executor_.state();
  executor_.setState(std::move(again.state));
  llvm::Expected<StageTape> tape = executor_.record(again.key, again.inputs, again.uses, busy);
  executor_.setState(std::move(now));
  if (tape)
    tape->takeOutputs(); // those of the first forward are in use
  return tape ? noteTape(microBatch, std::move(*tape)) : tape.takeError();
}

llvm::Expected<StageTape *> StageTraining::tapeOf(int64_t microBatch, const char *what) {
  const auto found = tapes_.find(microBatch);
  if (found == tapes_.end())
    return failf(ExitCode::Internal, "{}, micro-batch {}: {} before its forward", executor_.title(),
                 microBatch, what);
  return &found->second;
}

llvm::Expected<std::vector<ValueGradients>>
StageTraining::backward(int64_t microBatch, bool split, std::vector<ValueGradients> ofOutputs,
                        std::vector<ValueGradients> later, std::pair<Fence, Fence> &busy) {
  StageTape *tape = TRY(tapeOf(microBatch, "a backward"));
  StageGradients found;
  bool isWhole = !split || !canSplit_;
  llvm::Error error = executor_.onStream(microBatch, "the backward", [&]() -> llvm::Error {
    isWhole = isWhole || !tape->whyWhole().empty();
    busy.first = executor_.device().mark();
    found = TRY(isWhole ? tape->backward(std::move(ofOutputs), std::move(later))
                        : tape->inputGradients(std::move(ofOutputs), std::move(later)));
    busy.second = executor_.device().mark();
    return isWhole ? fold(microBatch, std::move(found.attributes)) : llvm::Error::success();
  });
  if (error)
    return std::move(error);
  if (isWhole)
    tapes_.erase(microBatch);
  if (split)
    whole_[microBatch] = isWhole;
  return std::move(found.inputs);
}

llvm::Error StageTraining::weightGradients(int64_t microBatch, std::pair<Fence, Fence> &busy) {
  const auto whole = whole_.find(microBatch);
  if (whole == whole_.end())
    return failf(ExitCode::Internal, "{}, micro-batch {}: W before I", executor_.title(),
                 microBatch);
  const bool isWhole = whole->second;
  whole_.erase(whole);
  if (isWhole) {
    busy.first = busy.second = ready();
    return llvm::Error::success();
  }
  StageTape *tape = TRY(tapeOf(microBatch, "W"));
  llvm::Error error =
      executor_.onStream(microBatch, "the backward to the weights", [&]() -> llvm::Error {
        busy.first = executor_.device().mark();
        std::vector<ValueGradients> found = TRY(tape->weightGradients());
        busy.second = executor_.device().mark();
        return fold(microBatch, std::move(found));
      });
  tapes_.erase(microBatch);
  return error;
}

/// Schedules may end a later micro-batch first: it waits for the earlier ones.
llvm::Error StageTraining::fold(int64_t microBatch, std::vector<ValueGradients> found) {
  early_.emplace(microBatch, std::move(found));
  for (auto next = early_.begin(); next != early_.end() && next->first == nextToFold_;
       next = early_.erase(next), ++nextToFold_)
    TRY(addOne(std::move(next->second)));
  return llvm::Error::success();
}

llvm::Error StageTraining::addOne(std::vector<ValueGradients> found) {
  c10::AutoGradMode noGrad(false);
  for (size_t a = 0; a < found.size(); ++a) {
    const c10::IValue &value = executor_.module().attribute(a);
    if (found[a].empty()) // it held no tensor before the forward
      continue;
    if (value.isTensor()) {
      accumulateGradient(sums_[a], std::move(found[a].front()), value.toTensor());
      continue;
    }
    if (llvm::any_of(found[a], [](const at::Tensor &each) { return each.defined(); }))
      return failf(ExitCode::BadArtifact, "{}: expected a tensor as parameter {}, got a {}",
                   executor_.title(), plan_.attributes[a].name, value.tagKind());
  }
  return llvm::Error::success();
}

Fence StageTraining::ready() {
  std::unique_ptr<Device::Scope> stream = executor_.device().enter(executor_.stream());
  return executor_.device().mark();
}

void StageTraining::share(size_t attribute, const std::map<size_t, ReadyTensor> &parts) {
  std::vector<ReadyTensor> ordered;
  for (const auto &[stage, part] : llvm::reverse(parts))
    ordered.push_back(part);
  replace(attribute, ordered);
}

void StageTraining::replace(size_t attribute, llvm::ArrayRef<ReadyTensor> parts) {
  c10::AutoGradMode noGrad(false);
  Device &device = executor_.device();
  std::unique_ptr<Device::Scope> stream = device.enter(executor_.stream());
  at::Tensor sum;
  for (const ReadyTensor &part : parts) {
    device.waitFor(part.ready);
    accumulateGradient(sum, device.bring(part.tensor, device).toTensor(),
                       executor_.module().attribute(attribute).toTensor());
  }
  sums_[attribute] = std::move(sum);
}

void StageTraining::keepGradients() {
  for (const at::Tensor &sum : sums_)
    kept_.push_back(sum.defined() ? sum.clone() : at::Tensor());
}

std::optional<size_t> StageTraining::ownedNumber(size_t attribute) const {
  const auto found = llvm::find(owned_, attribute);
  return found == owned_.end() ? std::nullopt
                               : std::optional(static_cast<size_t>(found - owned_.begin()));
}

OptimizerState StageTraining::optimizerState(size_t attribute) const {
  const std::optional<size_t> number = ownedNumber(attribute);
  return number ? optimizer_.state(*number) : OptimizerState();
}

llvm::Error StageTraining::setOptimizerState(size_t attribute, OptimizerState state) {
  const std::optional<size_t> number = ownedNumber(attribute);
  return number ? optimizer_.setState(*number, std::move(state)) : llvm::Error::success();
}

llvm::Error StageTraining::checkOptimizerState(size_t attribute, const OptimizerState &state) {
  const std::optional<size_t> number = ownedNumber(attribute);
  return number ? optimizer_.checkState(*number, state) : llvm::Error::success();
}

llvm::Error StageTraining::optimize(double rateFactor, const Fence &ready) {
  if (owned_.empty())
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Other, executor_.title() + ": the optimizer", [&] {
    std::unique_ptr<Device::Scope> stream = executor_.device().enter(executor_.stream());
    executor_.device().waitFor(ready);
    std::vector<at::Tensor> gradients;
    for (size_t attribute : owned_)
      gradients.push_back(sums_[attribute]);
    optimizer_.step(rateFactor, gradients);
  });
}

} // namespace pipec
