// The training of an unsplit model: what every trained pipeline must equal.
#include "runtime/ReferenceTraining.h"

#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/plan/LossLeaf.h"
#include "ir/values/Values.h"
#include "runtime/StateCopy.h"
#include "runtime/ThreadSettings.h"
#include "runtime/training/Freeze.h"
#include "runtime/training/GradientNorm.h"
#include "runtime/training/RootScale.h"

#include <c10/core/GradMode.h>

#include <chrono>

namespace pipec {

namespace {

/// The description of tensors in a result, as lossLeaf() needs it.
void describeLeaves(Signature &signature, const std::vector<c10::IValue> &leaves) {
  for (size_t l = 0; l < leaves.size(); ++l) {
    if (!leaves[l].isTensor() || !leaves[l].toTensor().defined())
      continue;
    signature.leaves[l].tensor = specOf(leaves[l].toTensor());
    signature.leaves[l].type = "Tensor";
  }
}

} // namespace

llvm::Error Reference::train(const TrainingOptions &options) {
  if (!impl_->device->where().is_cpu())
    return makeError(ExitCode::Usage, "--train: expected device cpu, got " + impl_->device->name(),
                     "this version trains on CPUs only");
  auto training = std::make_shared<ReferenceTraining>();
  training->options = options;
  training->tensors = trainedTensors(*impl_->module);
  std::vector<std::vector<std::string>> names;
  for (const TrainedTensor &each : training->tensors)
    names.push_back(each.names);
  llvm::Expected<std::vector<bool>> isFrozen = frozen(options.freeze, names);
  if (!isFrozen)
    return isFrozen.takeError();
  for (size_t i = isFrozen->size(); i-- > 0;)
    if ((*isFrozen)[i]) {
      training->tensors[i].tensor.requires_grad_(false);
      training->tensors.erase(training->tensors.begin() + static_cast<int64_t>(i));
    }
  if (llvm::Error error = training->rates.set(options.learningRates, options.steps))
    return error;
  if (!options.optimizer.empty()) {
    llvm::Expected<NamedSettings> settings = parseOptimizer(options.optimizer);
    if (!settings)
      return settings.takeError();
    std::vector<at::Tensor> parameters;
    for (const TrainedTensor &each : training->tensors)
      parameters.push_back(each.tensor);
    if (!parameters.empty())
      if (llvm::Error error = guardTorchVoid(ExitCode::Other, "making the optimizer", [&] {
            training->optimizer.emplace(*settings, std::move(parameters));
          }))
        return error;
    training->rates.optimizer = std::move(*settings);
  }
  impl_->training = std::move(training);
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Reference::step(const std::vector<c10::IValue> &inputs,
                                            StepStats *stats) {
  if (!impl_->training)
    return makeError(ExitCode::Usage, "step: expected a reference that trains, got one that infers",
                     "call train() first");
  if (impl_->training->updating)
    return makeError(ExitCode::Other,
                     "the reference is unusable: the failed step has updated some weights",
                     "load the model again");
  std::optional<ModuleStateCopy> before;
  if (impl_->keepsState)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "copying the model's state",
                                           [&] { before.emplace(impl_->module->_ivalue()); }))
      return std::move(error);
  const uint64_t calls = impl_->calls;
  llvm::Expected<TrainedStep> result = stepOnce(inputs, stats);
  if (result) {
    if (llvm::Error error =
            impl_->training->skipped.note(result->skipped, impl_->training->options.mostSkipped))
      return std::move(error);
    return result;
  }
  impl_->calls = calls;
  if (before)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "restoring the model's state",
                                           [&] { before->restore(); })) {
      llvm::consumeError(result.takeError());
      return std::move(error);
    }
  return result;
}

llvm::Error ReferenceTraining::noteUse() {
  used.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!gradients[i].defined())
      continue;
    if (i < absent.size() && absent[i])
      return makeError(ExitCode::Usage,
                       fmt::format("parameter {} has a gradient: expected it in the checkpoint, "
                                   "got none",
                                   tensors[i].names.front()),
                       "pass the model that the checkpoint was trained from");
    used[i] = true;
  }
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Reference::stepOnce(const std::vector<c10::IValue> &inputs,
                                                StepStats *stats) {
  Impl &impl = *impl_;
  ReferenceTraining &training = *impl.training;
  if (inputs.size() != impl.signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", impl.signature.inputs.size(),
                 inputs.size());
  if (impl.options.microBatches == 1) {
    impl.guessBatch(inputs);
  } else if (!impl.known) {
    ThreadSettings settings(impl.threads);
    if (llvm::Error error = impl.learn(inputs))
      return std::move(error);
  }
  llvm::Expected<BatchParts> parts = splitBatch(impl.signature, inputs, impl.options.microBatches);
  if (!parts)
    return parts.takeError();

  TrainingSettings settings(impl.threads);
  const std::vector<at::Tensor> scales = rootScales(parts->samples, training.options.reduction);
  std::vector<at::Tensor> losses;
  training.gradients.assign(training.tensors.size(), at::Tensor());
  training.kept.clear();
  int64_t busyNs = 0;
  const auto start = std::chrono::steady_clock::now();
  for (size_t k = 0; k < parts->inputs.size(); ++k) {
    llvm::Expected<c10::IValue> value = impl.run(*impl.module, parts->inputs[k], k, &busyNs);
    if (!value)
      return withArguments(value.takeError(), impl.signature, parts->inputs[k]);
    if (!training.loss && impl.options.microBatches == 1)
      describeResult(impl.signature, *value);
    llvm::Expected<std::vector<c10::IValue>> leaves = flattenOutputs(impl.signature, *value);
    if (!leaves)
      return leaves.takeError();
    if (!training.loss) {
      Signature described = impl.signature;
      describeLeaves(described, *leaves);
      llvm::Expected<size_t> loss = lossLeaf(described, training.options.lossOutput);
      if (!loss)
        return loss.takeError();
      training.loss = *loss;
    }
    if (!(*leaves)[*training.loss].isTensor())
      return failf(ExitCode::Usage, "micro-batch {}: expected the loss to be a tensor, got a {}", k,
                   (*leaves)[*training.loss].tagKind());
    const at::Tensor loss = (*leaves)[*training.loss].toTensor();
    *value = c10::IValue();
    leaves->clear();
    if (llvm::Error error =
            guardTorchVoid(ExitCode::Usage, fmt::format("the backward of micro-batch {}", k), [&] {
              std::vector<at::Tensor> found = gradientsFrom(
                  loss, scales[k].to(loss.options().requires_grad(false)), training.tensors);
              c10::AutoGradMode noGrad(false);
              for (size_t i = 0; i < found.size(); ++i)
                accumulateGradient(training.gradients[i], std::move(found[i]),
                                   training.tensors[i].tensor);
            }))
      return std::move(error);
    losses.push_back(loss.detach());
  }
  if (llvm::Error error = training.noteUse())
    return std::move(error);
  TrainedStep result;
  if (llvm::Error error = guardTorchError(ExitCode::Other, "ending the step", [&]() -> llvm::Error {
        c10::AutoGradMode noGrad(false);
        result.loss = totalLoss(losses, scales);
        StepNumbers numbers;
        for (size_t k = 0; k < losses.size(); ++k)
          if (!isFiniteNumber(losses[k]))
            numbers[-1 - static_cast<int64_t>(k)] = losses[k];
        for (size_t i = 0; i < training.gradients.size(); ++i)
          if (training.gradients[i].defined())
            numbers[static_cast<int64_t>(i)] = gradientNorm(training.gradients[i]);
        llvm::Expected<StepNorm> judged =
            judge(numbers, training.options.onNan == OnNan::Skip, [&](size_t parameter) {
              return "parameter " + training.tensors[parameter].names.front();
            });
        if (!judged)
          return judged.takeError();
        result.gradientNorm = judged->total.item<double>();
        result.skipped = !judged->isFinite;
        if (result.skipped)
          return llvm::Error::success();
        if (training.options.clipNorm > 0) {
          if (training.options.keepGradients)
            for (const at::Tensor &gradient : training.gradients)
              training.kept.push_back(gradient.defined() ? gradient.clone() : gradient);
          clipGradients(training.gradients, judged->total, training.options.clipNorm);
        }
        result.learningRate = training.rates.at(impl.calls);
        if (training.optimizer)
          training.optimizer->step(result.learningRate, training.gradients);
        return llvm::Error::success();
      }))
    return std::move(error);
  const int64_t makespanNs =
      (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  ++impl.calls;
  if (stats)
    *stats = {makespanNs, {busyNs}, 0, 0};
  return result;
}

llvm::Error Reference::setLearningRates(const std::string &text, int64_t steps) {
  if (!impl_->training)
    return makeError(ExitCode::Usage, "learning rates: expected a reference that trains");
  return impl_->training->rates.set(text, steps);
}

ValueTree Reference::gradients() const {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  if (!impl_->training)
    return ValueTree::of(dict);
  const ReferenceTraining &training = *impl_->training;
  const std::vector<at::Tensor> &gradients =
      training.kept.empty() ? training.gradients : training.kept;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      dict.insert(training.tensors[i].names.front(), denseGradient(gradients[i]));
  return ValueTree::of(dict);
}

ValueTree Reference::state() const {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  for (const auto &[name, value] : impl_->module->named_parameters(/*recurse=*/true))
    dict.insert(name, value.detach());
  for (const auto &[name, value] : impl_->module->named_buffers(/*recurse=*/true))
    if (value.defined())
      dict.insert(name, value.detach());
  return ValueTree::of(dict);
}

} // namespace pipec
