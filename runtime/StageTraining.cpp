#include "runtime/StageTraining.h"

#include "ir/TorchError.h"
#include "ir/autograd/BackwardErrors.h"
#include "ir/autograd/GradSum.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <c10/core/GradMode.h>

namespace pipec {

namespace {

/// Removes one of a list without an order.
template <typename T> void removeFrom(std::vector<T> &list, T &one) {
  if (&one != &list.back())
    one = std::move(list.back());
  list.pop_back();
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
  flights_.clear();
  again_.clear();
  early_.clear();
  sums_.assign(sums_.size(), at::Tensor());
  kept_.clear();
  nextToFold_ = 0;
}

StageTraining::Flight *StageTraining::flightOf(int64_t microBatch) {
  const auto found =
      llvm::find_if(flights_, [&](const Flight &each) { return each.microBatch == microBatch; });
  return found == flights_.end() ? nullptr : &*found;
}

llvm::Error StageTraining::noteTape(int64_t microBatch, StageTape tape) {
  if (flightOf(microBatch))
    return failf(ExitCode::Internal, "{}, micro-batch {}: a second forward before its backward",
                 executor_.title(), microBatch);
  Flight &flight = flights_.emplace_back();
  flight.microBatch = microBatch;
  flight.tape.emplace(std::move(tape));
  return llvm::Error::success();
}

void StageTraining::end(Flight &flight) { removeFrom(flights_, flight); }

/// The inputs are copies if the stage writes in place; the state always is.
void StageTraining::noteAgain(const RandomKey &key, llvm::ArrayRef<ReadyValue> inputs) {
  Again again;
  if (!spareAgain_.empty()) {
    again = std::move(spareAgain_.back());
    spareAgain_.pop_back();
  }
  again.key = key;
  again.inputs.assign(inputs.begin(), inputs.end());
  if (executor_.writesInPlace()) {
    const auto copied = atScopeEnd([&] { copied_.clear(); });
    for (const ReadyValue &input : inputs)
      copied_.push_back(input.value);
    sharing_.replace(copied_);
    for (size_t i = 0; i < inputs.size(); ++i)
      again.inputs[i].value = std::move(copied_[i]);
  }
  executor_.addState(again.state);
  sharing_.replace(again.state);
  again_.push_back(std::move(again));
}

llvm::Expected<std::vector<c10::IValue>>
StageTraining::forward(const RandomKey &key, llvm::MutableArrayRef<ReadyValue> inputs,
                       bool recomputes, std::pair<Fence, Fence> &busy) {
  const auto microBatch = static_cast<int64_t>(key.microBatch);
  if (recomputes)
    TRY(executor_.onStream(microBatch, "copying its inputs", [&] {
      for (ReadyValue &input : inputs)
        executor_.receive(input);
      noteAgain(key, inputs);
      return llvm::Error::success();
    }));
  StageTape tape = TRY(executor_.record(key, inputs, /*isAgain=*/false, busy));
  std::vector<c10::IValue> outputs = tape.takeOutputs();
  // A recompute makes it again: what autograd kept is freed here.
  if (!recomputes)
    TRY(noteTape(microBatch, std::move(tape)));
  return outputs;
}

llvm::Error StageTraining::recompute(int64_t microBatch, std::pair<Fence, Fence> &busy) {
  const auto found = llvm::find_if(again_, [&](const Again &each) {
    return static_cast<int64_t>(each.key.microBatch) == microBatch;
  });
  if (found == again_.end())
    return failf(ExitCode::Internal, "{}, micro-batch {}: recomputed before its forward",
                 executor_.title(), microBatch);
  Again again = std::move(*found);
  removeFrom(again_, *found);
  executor_.swapState(again.state);
  llvm::Expected<StageTape> tape =
      executor_.record(again.key, again.inputs, /*isAgain=*/true, busy);
  executor_.swapState(again.state);
  again.inputs.clear();
  again.state.clear();
  spareAgain_.push_back(std::move(again));
  if (!tape)
    return tape.takeError();
  executor_.reuse(tape->takeOutputs()); // those of the first forward are in use
  return noteTape(microBatch, std::move(*tape));
}

/// Gives each gradient memory of its own. LibTorch's engine adds to a gradient in place if the host
/// holds no other reference to it. But W of this stage, or a second stage that receives the same
/// gradient, may still read that memory on its own stream. Example: the gradient of a sum is the
/// gradient of both of its inputs.
static void copyShared(llvm::MutableArrayRef<ValueGradients> gradients) {
  c10::AutoGradMode noGrad(false);
  for (ValueGradients &value : gradients)
    for (at::Tensor &gradient : value)
      if (gradient.defined() && gradient.layout() == at::kStrided && !isOwn(gradient))
        gradient = gradient.clone();
}

llvm::Expected<std::vector<ValueGradients>>
StageTraining::backward(int64_t microBatch, bool split, std::vector<ValueGradients> &&ofOutputs,
                        std::vector<ValueGradients> &&later, std::pair<Fence, Fence> &busy) {
  Flight *const flight = flightOf(microBatch);
  if (!flight || !flight->tape)
    return failf(ExitCode::Internal, "{}, micro-batch {}: a backward before its forward",
                 executor_.title(), microBatch);
  StageTape &tape = *flight->tape;
  StageGradients found;
  bool isWhole = !split || !canSplit_;
  auto addsNow = [&](size_t attribute, at::Tensor &gradient) {
    return addNow(microBatch, attribute, gradient);
  };
  llvm::Error error = executor_.onStream(microBatch, "the backward", [&]() -> llvm::Error {
    isWhole = isWhole || !tape.whyWhole().empty();
    busy.first = executor_.device().mark();
    found = TRY(isWhole ? tape.backward(std::move(ofOutputs), std::move(later), addsNow)
                        : tape.inputGradients(std::move(ofOutputs), std::move(later)));
    if (isWhole)
      TRY(fold(microBatch, std::move(found.attributes)));
    if (executor_.device().hasStreams())
      copyShared(found.inputs);
    busy.second = executor_.device().mark();
    return llvm::Error::success();
  });
  if (error)
    return explainBackward(std::move(error));
  if (!split) {
    end(*flight);
  } else {
    flight->hasInputGradients = true;
    if (isWhole)
      flight->tape.reset();
  }
  return std::move(found.inputs);
}

llvm::Error StageTraining::weightGradients(int64_t microBatch, std::pair<Fence, Fence> &busy) {
  Flight *const flight = flightOf(microBatch);
  if (!flight || !flight->hasInputGradients)
    return failf(ExitCode::Internal, "{}, micro-batch {}: W before I", executor_.title(),
                 microBatch);
  const auto ended = atScopeEnd([&] { end(*flight); });
  if (!flight->tape) { // I was the whole backward
    busy.first = busy.second = ready();
    return llvm::Error::success();
  }
  auto walk = [&]() -> llvm::Error {
    busy.first = executor_.device().mark();
    std::vector<ValueGradients> found =
        TRY(flight->tape->weightGradients([&](size_t attribute, at::Tensor &gradient) {
          return addNow(microBatch, attribute, gradient);
        }));
    TRY(fold(microBatch, std::move(found)));
    busy.second = executor_.device().mark();
    return llvm::Error::success();
  };
  return explainBackward(executor_.onStream(microBatch, "the backward to the weights", walk));
}

bool StageTraining::addNow(int64_t microBatch, size_t attribute, at::Tensor &gradient) {
  const c10::IValue &value = executor_.module().attribute(attribute);
  if (microBatch != nextToFold_ || !value.isTensor())
    return false;
  accumulateGradient(sums_[attribute], std::move(gradient), value.toTensor());
  return true;
}

/// Schedules may end a later micro-batch first: it waits for the earlier ones.
llvm::Error StageTraining::fold(int64_t microBatch, std::vector<ValueGradients> found) {
  if (microBatch != nextToFold_) {
    early_.push_back({microBatch, std::move(found)});
    return llvm::Error::success();
  }
  for (;;) {
    TRY(addOne(std::move(found)));
    ++nextToFold_;
    const auto next =
        llvm::find_if(early_, [&](const Early &each) { return each.microBatch == nextToFold_; });
    if (next == early_.end())
      return llvm::Error::success();
    found = std::move(next->found);
    removeFrom(early_, *next);
  }
}

llvm::Error StageTraining::addOne(std::vector<ValueGradients> found) {
  const auto added = atScopeEnd([&] { executor_.reuse(std::move(found)); });
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

llvm::Error StageTraining::optimize(double rateFactor) {
  if (owned_.empty())
    return llvm::Error::success();
  llvm::Error error = guardTorchVoid(ExitCode::Other, "the optimizer", [&] {
    std::unique_ptr<Device::Scope> stream = executor_.device().enter(executor_.stream());
    const auto updated = atScopeEnd([&] { updates_.clear(); });
    for (size_t attribute : owned_)
      updates_.push_back(sums_[attribute]);
    optimizer_.step(rateFactor, updates_);
  });
  return error ? withContext(std::move(error), executor_.title()) : llvm::Error::success();
}

} // namespace pipec
