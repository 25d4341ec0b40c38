// The training of a pipeline.
#include "runtime/PipelineTraining.h"

#include "ir/autograd/GradSum.h"
#include "ir/plan/LossLeaf.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/DeferredNorm.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/OptimizerState.h"
#include "runtime/training/ParameterGroups.h"
#include "runtime/training/SparseGradients.h"

#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>

namespace pipec {

llvm::Error Pipeline::Impl::startTraining(const TrainingOptions &options) {
  const Plan &plan = core->artifact.plan;
  const TrainingPlan &trained = *plan.training;
  if (trained.count && options.reduction)
    return pairWithReduction();
  training = std::make_shared<PipelineTraining>();
  training->mustVerifySplit = options.verifySplit;
  training->reduction = options.reduction.value_or(LossReduction::Mean);
  const std::string onSum =
      warningOnSum(plan.signature, {trained.loss, trained.count},
                   std::vector<bool>(plan.signature.leaves.size(), true)); // the compile's finding
  if (!options.reduction && microBatches != 1 && !onSum.empty())
    core->artifact.warnings.push_back(onSum);
  TRY(training->rates.set(options.learningRates, options.steps));
  ParameterNames names;
  for (const TrainedParameter &parameter : trained.parameters)
    names.push_back(parameter.allNames());
  std::vector<bool> isFrozen = TRY(frozen(options.freeze, names));
  TRY(checkAnyTrained(options, isFrozen));
  size_t norms = 0;
  for (size_t k = 0; k < core->replicas; ++k)
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      StageExecutor &executor = *core->executorsOf(k)[s];
      executor.setPrecision(options.precision);
      if (options.batchNorm == BatchNorm::Deferred)
        norms += executor.deferNorms();
      core->trainingsOf(k).push_back(
          std::make_unique<StageTraining>(executor, plan.stages[s], trained.whyWhole[s].empty()));
    }
  if (options.batchNorm == BatchNorm::Deferred && norms == 0)
    return noBatchNorm();
  OptimizerSettings settings = TRY(optimizerSettings(options, names));
  training->rates.optimizer = settings.common;
  TrainingData &data = core->data.training;
  data.needsDense = whatNeedsDense(settings.each);
  data.clipNorm = options.clipNorm;
  data.keepsGradients = options.keepGradients;
  data.skipsNan = options.onNan == OnNan::Skip;
  data.anyTrained = llvm::is_contained(isFrozen, false);
  for (size_t k = 0; k < core->replicas; ++k)
    TRY(addOptimizers(settings, names, isFrozen, core->trainingsOf(k)));
  return llvm::Error::success();
}

/// Of the stages of one replica.
llvm::Error
Pipeline::Impl::addOptimizers(const OptimizerSettings &settings, const ParameterNames &names,
                              const std::vector<bool> &isFrozen,
                              const std::vector<std::unique_ptr<StageTraining>> &stages) {
  const Plan &plan = core->artifact.plan;
  for (size_t p = 0; p < names.size(); ++p)
    for (const PortRef &use : plan.training->parameters[p].uses) {
      if (plan.stages[use.stage].attributes[use.port].channel)
        continue;
      if (isFrozen[p]) {
        stages[use.stage]->freeze(use.port);
        continue;
      }
      if (settings.common)
        TRY(stages[use.stage]->addOptimizer(settings, p, names[p].front(), use.port));
    }
  return llvm::Error::success();
}

llvm::Error Pipeline::setLearningRates(const std::string &text, int64_t steps) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  if (!impl_->training)
    return makeError(ExitCode::Usage, "learning rates: expected a pipeline with training options");
  return impl_->training->rates.set(text, steps);
}

ValueTree Pipeline::gradients() const {
  if (!impl_)
    return ValueTree::dict({});
  const PipelineCore &core = *impl_->core;
  const Plan &plan = core.artifact.plan;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  if (core.training)
    for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
      const PortRef owner = plan.training->owner(p, plan.stages);
      if (const at::Tensor &gradient = core.trainings[owner.stage]->firstGradient(owner.port);
          gradient.defined())
        dict.insert(plan.training->parameters[p].name, denseGradient(gradient).cpu());
    }
  return ValueTree::of(dict);
}

ValueTree Pipeline::optimizerState() const {
  if (!impl_)
    return ValueTree::dict({});
  const PipelineCore &core = *impl_->core;
  const Plan &plan = core.artifact.plan;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  if (core.training)
    for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
      const PortRef owner = plan.training->owner(p, plan.stages);
      if (const OptimizerState state = core.trainings[owner.stage]->optimizerState(owner.port);
          !state.empty())
        dict.insert(plan.training->parameters[p].name, dictOf(state));
    }
  return ValueTree::of(dict);
}

/// A stage may receive the tensor: then the file of the stage that sends it knows the name.
static bool isPlain(const PipelineCore &core, const std::string &name) {
  return llvm::any_of(core.executors, [&](const std::unique_ptr<StageExecutor> &executor) {
    return executor->module().isPlain(name);
  });
}

/// Whether state() has the tensor, under any of its names.
static bool isInState(const PipelineCore &core, const StageAttribute &attribute,
                      const c10::IValue &value) {
  const bool isWeight =
      attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer;
  return isWeight && value.isTensor() && value.toTensor().defined() &&
         llvm::any_of(attribute.allNames(),
                      [&](const std::string &name) { return !isPlain(core, name); });
}

ValueTree Pipeline::state() const {
  if (!impl_)
    return ValueTree::dict({});
  const PipelineCore &core = *impl_->core;
  const Plan &plan = core.artifact.plan;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  auto add = [&](const std::vector<std::string> &names, const at::Tensor &tensor) {
    const at::Tensor value = tensor.detach().cpu();
    for (const std::string &name : names)
      if (!dict.contains(name) && !isPlain(core, name))
        dict.insert(name, value);
  };
  if (core.training) // a stage may know a shared weight by one of its names only
    for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
      const TrainedParameter &parameter = plan.training->parameters[p];
      const PortRef owner = plan.training->owner(p, plan.stages);
      add(parameter.allNames(),
          core.executors[owner.stage]->module().attribute(owner.port).toTensor());
    }
  for (size_t s = 0; s < core.executors.size(); ++s)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a) {
      const StageAttribute &attribute = plan.stages[s].attributes[a];
      const c10::IValue &value = core.executors[s]->module().attribute(a);
      if (isInState(core, attribute, value))
        add(attribute.allNames(), value.toTensor());
    }
  return ValueTree::of(dict);
}

std::vector<std::string> Pipeline::unsavedState() const {
  std::vector<std::string> names;
  if (!impl_)
    return names;
  const PipelineCore &core = *impl_->core;
  const std::vector<StagePlan> &stages = core.artifact.plan.stages;
  for (size_t s = 0; s < core.executors.size(); ++s)
    for (size_t a = 0; a < stages[s].attributes.size(); ++a) {
      const StageAttribute &attribute = stages[s].attributes[a];
      const c10::IValue &value = core.executors[s]->module().attribute(a);
      // A buffer may be None, which a state file has no form for.
      const bool isAbsent = attribute.kind == AttributeKind::Buffer && value.isNone();
      if ((attribute.written || attribute.requiresGrad) && !isAbsent &&
          !isInState(core, attribute, value) && !llvm::is_contained(names, attribute.name))
        names.push_back(attribute.name);
    }
  return names;
}

} // namespace pipec
