#include "ir/artifact/SerialStages.h"

#include "ir/support/Try.h"
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

llvm::Expected<StageModule> SerialStages::read(size_t stage) const {
  const StagePlan &plan = plan_->stages[stage];
  StageModule module = TRY(StageModule::load(directory_ + "/" + plan.file, plan));
  module.silence();
  TRY(module.prepare());
  return module;
}

llvm::Expected<StageModule> SerialStages::copyOf(size_t stage) const {
  return isShared_[stage] ? stages_[stage].copy() : read(stage);
}

llvm::Expected<SerialStages> SerialStages::load(const std::string &directory, const Plan &plan,
                                                const std::map<std::string, at::Tensor> &instead) {
  SerialStages result;
  result.directory_ = directory;
  result.plan_ = &plan;
  result.instead_ = instead;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    llvm::Expected<StageModule> stage = result.read(s);
    if (!stage)
      return withContext(stage.takeError(), fmt::format("stage {}", s));
    result.isShared_.push_back(stage->canBeCopied());
    result.stages_.push_back(std::move(*stage));
  }
  return result;
}

bool SerialStages::mayUseGenerator() const {
  return llvm::any_of(stages_, [](const StageModule &stage) { return stage.mayUseGenerator(); });
}

llvm::Expected<std::vector<StageModule>> SerialStages::copy() const {
  std::vector<StageModule> copies;
  for (size_t s = 0; s < stages_.size(); ++s) {
    llvm::Expected<StageModule> stage = copyOf(s);
    if (!stage)
      return withContext(stage.takeError(), fmt::format("stage {}", s));
    useInstead(*stage, plan_->stages[s], instead_);
    copies.push_back(std::move(*stage));
  }
  shareWeights(*plan_, copies);
  return copies;
}

std::vector<StageModule> SerialStages::take() && {
  for (size_t s = 0; s < stages_.size(); ++s)
    useInstead(stages_[s], plan_->stages[s], instead_);
  shareWeights(*plan_, stages_);
  return std::move(stages_);
}

} // namespace pipec
