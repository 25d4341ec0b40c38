#include "runtime/PipelineTraining.h"

#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/values/Values.h"
#include "runtime/training/Freeze.h"
#include "runtime/training/RootScale.h"

#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>

namespace pipec {

llvm::Error Pipeline::Impl::startTraining(const TrainingOptions &options) {
  const Plan &plan = core->artifact.plan;
  const TrainingPlan &trained = *plan.training;
  training = std::make_shared<PipelineTraining>();
  if (llvm::Error error = training->rates.set(options.learningRates, options.steps))
    return error;
  std::vector<std::vector<std::string>> names;
  for (const TrainedParameter &parameter : trained.parameters) {
    names.push_back({parameter.name});
    names.back().insert(names.back().end(), parameter.otherNames.begin(),
                        parameter.otherNames.end());
  }
  llvm::Expected<std::vector<bool>> isFrozen = frozen(options.freeze, names);
  if (!isFrozen)
    return isFrozen.takeError();
  for (size_t s = 0; s < plan.stages.size(); ++s)
    core->trainings.push_back(std::make_unique<StageTraining>(*core->executors[s], plan.stages[s],
                                                              trained.whyWhole[s].empty()));
  std::vector<std::vector<size_t>> owned(plan.stages.size());
  for (size_t p = 0; p < trained.parameters.size(); ++p)
    for (const PortRef &use : trained.parameters[p].uses) {
      if (plan.stages[use.stage].attributes[use.port].channel)
        continue;
      if ((*isFrozen)[p])
        core->trainings[use.stage]->freeze(use.port);
      else
        owned[use.stage].push_back(use.port);
    }
  if (options.optimizer.empty())
    return llvm::Error::success();
  llvm::Expected<NamedSettings> settings = parseOptimizer(options.optimizer);
  if (!settings)
    return settings.takeError();
  if (llvm::Error error = guardTorchVoid(ExitCode::Other, "making the optimizer", [&] {
        for (size_t s = 0; s < plan.stages.size(); ++s)
          core->trainings[s]->setOptimizer(*settings, owned[s]);
      }))
    return error;
  training->rates.optimizer = std::move(*settings);
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Pipeline::step(const ValueTree &arguments, StepStats *stats) {
  llvm::Expected<Arguments> given = argumentsOfValue("arguments", arguments.ivalue());
  if (!given)
    return given.takeError();
  auto inputs = bind(*given);
  if (!inputs)
    return inputs.takeError();
  return step(*inputs, stats);
}

llvm::Expected<TrainedStep> Pipeline::step(const std::vector<c10::IValue> &inputs,
                                           StepStats *stats) {
  Impl &impl = *impl_;
  PipelineCore &core = *impl.core;
  if (!core.training)
    return makeError(ExitCode::Usage,
                     "step: expected a pipeline with training options, got one "
                     "without",
                     "set PipelineOptions::training, or call infer()");
  if (llvm::Error error = impl.usableAgain())
    return std::move(error);
  llvm::Expected<BatchParts> parts = impl.split(inputs);
  if (!parts)
    return parts.takeError();
  TrainingData &data = core.data.training;
  data = TrainingData();
  data.scales = rootScales(parts->samples, core.training->reduction);
  data.learningRate = impl.training->rates.at(impl.calls);
  data.clipNorm = core.training->clipNorm;
  data.keepsGradients = core.training->keepGradients;
  data.skipsNan = core.training->onNan == OnNan::Skip;
  if (llvm::Error error = impl.endCall(impl.runBatch(*parts, inputs, stats)))
    return std::move(error);
  std::vector<at::Tensor> losses;
  for (const std::vector<c10::IValue> &leaves : core.data.leaves)
    losses.push_back(leaves[core.artifact.plan.training->loss].toTensor());
  core.data.leaves.clear();
  if (llvm::Error error = impl.training->skipped.note(data.skipped, core.training->mostSkipped))
    return std::move(error);
  return TrainedStep{totalLoss(losses, data.scales), data.gradientNorm.item<double>(),
                     data.skipped ? 0 : data.learningRate, data.skipped};
}

llvm::Error Pipeline::setLearningRates(const std::string &text, int64_t steps) {
  if (!impl_->training)
    return makeError(ExitCode::Usage, "learning rates: expected a pipeline with training options");
  return impl_->training->rates.set(text, steps);
}

ValueTree Pipeline::gradients() const {
  const PipelineCore &core = *impl_->core;
  const Plan &plan = core.artifact.plan;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  if (core.training)
    for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
      const PortRef owner = plan.training->owner(p, plan.stages);
      if (const at::Tensor &gradient = core.trainings[owner.stage]->firstGradient(owner.port);
          gradient.defined())
        dict.insert(plan.training->parameters[p].name, denseGradient(gradient));
    }
  return ValueTree::of(dict);
}

ValueTree Pipeline::state() const {
  const PipelineCore &core = *impl_->core;
  const Plan &plan = core.artifact.plan;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  auto add = [&](const std::string &name, const std::vector<std::string> &others,
                 const at::Tensor &tensor) {
    if (!dict.contains(name))
      dict.insert(name, tensor.detach());
    for (const std::string &other : others)
      if (!dict.contains(other))
        dict.insert(other, tensor.detach());
  };
  if (core.training) // a stage may know a shared weight by one of its names only
    for (size_t p = 0; p < plan.training->parameters.size(); ++p) {
      const TrainedParameter &parameter = plan.training->parameters[p];
      const PortRef owner = plan.training->owner(p, plan.stages);
      add(parameter.name, parameter.otherNames,
          core.executors[owner.stage]->module().attribute(owner.port).toTensor());
    }
  for (size_t s = 0; s < core.executors.size(); ++s)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a) {
      const StageAttribute &attribute = plan.stages[s].attributes[a];
      const c10::IValue &value = core.executors[s]->module().attribute(a);
      const bool isState =
          attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer;
      if (isState && value.isTensor() && value.toTensor().defined())
        add(attribute.name, attribute.otherNames, value.toTensor());
    }
  return ValueTree::of(dict);
}

} // namespace pipec
