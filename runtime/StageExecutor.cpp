#include "runtime/StageExecutor.h"

#include "ir/TorchError.h"
#include "ir/batch/ResultSnapshots.h"
#include "llvm/ADT/STLExtras.h"

#include <optional>

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
      title_(titleOf(plan, index)), stream_(device_->addStream()) {
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    if (llvm::is_contained(plan.effects.stateWrites, plan.attributes[i].name))
      written_.push_back(i);
  writesInPlace_ = !written_.empty() && module_.writesInPlace();
}

llvm::Expected<std::unique_ptr<StageExecutor>> StageExecutor::load(const std::string &path,
                                                                   const StagePlan &plan,
                                                                   size_t index,
                                                                   std::shared_ptr<Device> device) {
  llvm::Expected<StageModule> module = StageModule::load(path, plan);
  if (!module)
    return module.takeError();
  if (!device->where().is_cpu())
    if (llvm::Error error = module->moveTo(device->name()))
      return withContext(std::move(error), titleOf(plan, index));
  return std::unique_ptr<StageExecutor>(
      new StageExecutor(std::move(*module), plan, index, std::move(device)));
}

void StageExecutor::copyState() {
  if (before_ || written_.empty())
    return;
  std::vector<c10::IValue> state;
  for (size_t i : written_)
    state.push_back(module_.attribute(i));
  before_.emplace(state, writesInPlace_);
}

llvm::Error StageExecutor::restoreState() {
  if (!before_)
    return llvm::Error::success();
  llvm::Error error = guardTorchVoid(ExitCode::Other, title_ + ": restoring its state", [&] {
    std::unique_ptr<Device::Scope> stream = device_->enter(stream_);
    std::vector<c10::IValue> state = before_->restore();
    for (size_t k = 0; k < written_.size(); ++k)
      module_.setAttribute(written_[k], std::move(state[k]));
  });
  before_.reset();
  return error;
}

void StageExecutor::keepResults(std::vector<c10::IValue> &outputs) const {
  std::vector<c10::IValue> state;
  for (size_t i : written_)
    state.push_back(module_.attribute(i));
  for (size_t i = 0; i < std::min(outputs.size(), plan_->outputs.size()); ++i)
    if (!plan_->outputs[i].leaves.empty())
      outputs[i] = apartFrom(outputs[i], state);
}

llvm::Expected<std::vector<c10::IValue>> StageExecutor::forward(const RandomKey &key,
                                                                std::vector<ReadyValue> inputs,
                                                                std::pair<Fence, Fence> &busy) {
  std::optional<llvm::Expected<std::vector<c10::IValue>>> result;
  llvm::Error error = guardTorchVoid(ExitCode::Usage, "running", [&] {
    std::unique_ptr<Device::Scope> stream = device_->enter(stream_);
    std::vector<c10::IValue> values;
    values.reserve(inputs.size());
    for (ReadyValue &input : inputs) {
      device_->waitFor(input.ready);
      values.push_back(device_->bring(std::move(input.value), *device_));
    }
    copyState();
    busy.first = device_->mark();
    std::optional<RandomScope> random;
    if (!plan_->effects.randomOps.empty())
      random.emplace(key, plan_->effects.randomOps);
    result.emplace(module_.run(std::move(values)));
    if (*result && !written_.empty())
      keepResults(**result);
    busy.second = device_->mark();
  });
  if (!error && *result)
    return std::move(*result);
  if (!error)
    error = result->takeError();
  else if (result)
    llvm::consumeError(result->takeError());
  return withContext(std::move(error), fmt::format("{}, micro-batch {}", title_, key.microBatch));
}

} // namespace pipec
