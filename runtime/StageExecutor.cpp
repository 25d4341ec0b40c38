#include "runtime/StageExecutor.h"

#include "ir/TorchError.h"
#include "ir/batch/discovery/ResultSnapshots.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/Autocast.h"

#include <c10/core/GradMode.h>

#include <optional>
#include <utility>

namespace pipec {

namespace {

std::string titleOf(const StagePlan &plan, size_t index) {
  std::string title = fmt::format("stage {}", index);
  if (plan.firstModule.empty())
    return title;
  if (plan.firstModule == plan.lastModule)
    return title + " (" + plan.firstModule + ")";
  return title + " (" + plan.firstModule + ".." + plan.lastModule + ")";
}

} // namespace

StageExecutor::StageExecutor(StageModule module, const StagePlan &plan, size_t index,
                             std::shared_ptr<Device> device)
    : module_(std::move(module)), device_(std::move(device)), plan_(&plan),
      title_(titleOf(plan, index)), stream_(device_->addStream()),
      forwardArrivals_(device_->addStream()), backwardArrivals_(device_->addStream()) {
  written_ = writtenAttributes(plan);
  writesInPlace_ = module_.writesInPlace();
  writesStateInPlace_ = !written_.empty() && writesInPlace_;
}

llvm::Expected<std::unique_ptr<StageExecutor>> StageExecutor::load(const std::string &path,
                                                                   const StagePlan &plan,
                                                                   size_t index,
                                                                   std::shared_ptr<Device> device) {
  StageModule module = TRY(StageModule::load(path, plan));
  if (!device->where().is_cpu())
    if (llvm::Error error = module.moveTo(device->name()))
      return withContext(std::move(error), titleOf(plan, index));
  return std::unique_ptr<StageExecutor>(
      new StageExecutor(std::move(module), plan, index, std::move(device)));
}

void StageExecutor::copyState() {
  if (before_.isTaken() || written_.empty())
    return;
  const auto copied = atScopeEnd([&] { state_.clear(); });
  addState(state_);
  before_.take(state_, writesStateInPlace_);
}

llvm::Error StageExecutor::restoreState() {
  forgetNorms();
  if (!before_.isTaken())
    return llvm::Error::success();
  llvm::Error error = guardTorchVoid(ExitCode::Other, title_ + ": restoring its state", [&] {
    std::unique_ptr<Device::Scope> stream = device_->enter(stream_);
    setState(before_.restore());
  });
  before_.forget();
  return error;
}

void StageExecutor::keepResults(std::vector<c10::IValue> &outputs) {
  const auto kept = atScopeEnd([&] { state_.clear(); });
  addState(state_);
  for (size_t i = 0; i < std::min(outputs.size(), plan_->outputs.size()); ++i)
    if (!plan_->outputs[i].leaves.empty())
      outputs[i] = apartFrom(outputs[i], state_);
}

void StageExecutor::addState(std::vector<c10::IValue> &values) const {
  for (size_t i : written_)
    values.push_back(module_.attribute(i));
}

void StageExecutor::swapState(std::vector<c10::IValue> &state) {
  for (size_t k = 0; k < written_.size(); ++k) {
    c10::IValue now = module_.attribute(written_[k]);
    module_.setAttribute(written_[k], std::exchange(state[k], std::move(now)));
  }
}

void StageExecutor::setState(std::vector<c10::IValue> state) {
  for (size_t k = 0; k < written_.size(); ++k)
    module_.setAttribute(written_[k], std::move(state[k]));
}

llvm::Error StageExecutor::onStream(int64_t microBatch, const char *what,
                                    llvm::function_ref<llvm::Error()> body) {
  llvm::Error error = guardTorchError(ExitCode::Usage, what, [&] {
    std::unique_ptr<Device::Scope> stream = device_->enter(stream_);
    return body();
  });
  return error
             ? withContext(std::move(error), fmt::format("{}, micro-batch {}", title_, microBatch))
             : llvm::Error::success();
}

void StageExecutor::receive(ReadyValue &input) {
  device_->waitFor(input.ready);
  input.value = device_->bring(std::move(input.value), *device_);
}

std::vector<c10::IValue> StageExecutor::bringAll(llvm::MutableArrayRef<ReadyValue> inputs) {
  std::vector<c10::IValue> values = std::move(values_);
  values.reserve(inputs.size());
  for (ReadyValue &input : inputs) {
    receive(input);
    values.push_back(std::move(input.value));
  }
  return values;
}

llvm::Expected<std::vector<c10::IValue>>
StageExecutor::forward(const RandomKey &key, llvm::MutableArrayRef<ReadyValue> inputs,
                       std::pair<Fence, Fence> &busy) {
  std::vector<c10::IValue> result;
  TRY(onStream(static_cast<int64_t>(key.microBatch), "running", [&]() -> llvm::Error {
    std::vector<c10::IValue> values = bringAll(inputs);
    copyState();
    busy.first = device_->mark();
    std::optional<RandomScope> random;
    if (!plan_->effects.randomOps.empty())
      random.emplace(key, plan_->effects.randomOps);
    llvm::Expected<std::vector<c10::IValue>> outputs = module_.run(std::move(values));
    if (!outputs)
      return outputs.takeError();
    result = std::move(*outputs);
    if (!written_.empty())
      keepResults(result);
    busy.second = device_->mark();
    return llvm::Error::success();
  }));
  return result;
}

std::shared_ptr<const EnteredWeights>
StageExecutor::enteredWeights(llvm::ArrayRef<TapedAttribute> attributes) {
  if (!weights_ || !weights_->fits(attributes))
    weights_ = std::make_shared<const EnteredWeights>(attributes);
  return weights_;
}

llvm::Expected<StageTape> StageExecutor::record(const RandomKey &key,
                                                llvm::MutableArrayRef<ReadyValue> inputs,
                                                bool isAgain, std::pair<Fence, Fence> &busy) {
  std::optional<StageTape> result;
  TRY(onStream(static_cast<int64_t>(key.microBatch), "running", [&]() -> llvm::Error {
    std::vector<c10::IValue> values = bringAll(inputs);
    copyState();
    if (writesStateInPlace_)
      renewal_.renew(module_, *plan_, written_);
    beginNorms();
    const auto recorded = atScopeEnd([&] { attributes_.clear(); });
    for (size_t i = 0; i < plan_->attributes.size(); ++i)
      attributes_.push_back({module_.attribute(i), plan_->attributes[i].uses});
    busy.first = device_->mark();
    std::optional<RandomScope> random;
    if (!plan_->effects.randomOps.empty())
      random.emplace(key, plan_->effects.randomOps);
    NormCalls norms(std::move(normMemory_));
    const AutocastScope autocast(precision_);
    llvm::Expected<StageTape> tape = StageTape::record(
        std::move(values), attributes_, enteredWeights(attributes_),
        [&](std::vector<c10::IValue> given, llvm::ArrayRef<c10::IValue> weights) {
          return module_.run(std::move(given), weights, /*quietly=*/isAgain);
        },
        tapes_);
    if (!tape)
      return tape.takeError();
    if (llvm::Error notes =
            noteNorms(static_cast<int64_t>(key.microBatch), norms.take(), attributes_))
      return notes;
    busy.second = device_->mark();
    result.emplace(std::move(*tape));
    return llvm::Error::success();
  }));
  return std::move(*result);
}

size_t StageExecutor::deferNorms() {
  defersNorms_ = true;
  size_t count = 0;
  module_.rewrite([&](torch::jit::Block &block) { count = deferBatchNorms(block); });
  return count;
}

/// Every micro-batch of a step counts from the same number.
void StageExecutor::beginNorms() {
  if (!defersNorms_)
    return;
  for (size_t a : written_) {
    const c10::IValue &value = module_.attribute(a);
    if (!countsBatches(plan_->attributes[a].name) || !value.isTensor())
      continue;
    const auto [before, isFirst] = countedBefore_.try_emplace(a);
    if (isFirst)
      before->second = value.toTensor().detach().clone();
    else
      at::Tensor(value.toTensor()).copy_(before->second);
  }
}

/// A recompute notes the same calls again.
llvm::Error StageExecutor::noteNorms(int64_t microBatch, std::vector<NormCall> calls,
                                     llvm::ArrayRef<TapedAttribute> attributes) {
  if (!defersNorms_)
    return llvm::Error::success();
  auto portOf = [&](const at::Tensor &tensor) -> std::optional<size_t> {
    for (size_t a = 0; a < attributes.size(); ++a)
      if (const c10::IValue &value = attributes[a].value;
          value.isTensor() && value.toTensor().is_same(tensor))
        return a;
    return std::nullopt;
  };
  auto &noted = normCalls_[microBatch];
  noted.clear();
  for (NormCall &call : calls) {
    const std::optional<size_t> mean = portOf(call.runningMean), var = portOf(call.runningVar);
    if (!mean || !var)
      return makeError(ExitCode::Usage,
                       "--batch-norm deferred: expected running statistics that are buffers of the "
                       "model, got computed ones",
                       "--batch-norm per-micro-batch trains this model");
    call.runningMean = call.runningVar = at::Tensor();
    noted.push_back({{*mean, *var}, std::move(call)});
  }
  calls.clear();
  normMemory_ = std::move(calls);
  return llvm::Error::success();
}

llvm::Error StageExecutor::updateNorms() {
  if (!defersNorms_)
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Other, title_ + ": updating running statistics", [&] {
    std::map<NormPorts, std::vector<NormCall>> byNorm;
    for (const auto &[microBatch, calls] : normCalls_)
      for (const auto &[ports, call] : calls)
        byNorm[ports].push_back(call);
    for (const auto &[ports, calls] : byNorm)
      updateStatistics(module_.attribute(ports.first).toTensor(),
                       module_.attribute(ports.second).toTensor(), calls);
  });
}

void StageExecutor::forgetNorms() {
  for (auto &[microBatch, calls] : normCalls_)
    calls.clear();
  countedBefore_.clear();
}

} // namespace pipec
