// The training of an unsplit model: what every trained pipeline must equal.
#include "runtime/ReferenceTraining.h"

#include "ir/TorchError.h"
#include "ir/autograd/BackwardErrors.h"
#include "ir/autograd/GradSum.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/plan/LossLeaf.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/Try.h"
#include "runtime/ReferenceNorms.h"
#include "runtime/StateCopy.h"
#include "runtime/ThreadSettings.h"
#include "runtime/training/Autocast.h"
#include "runtime/training/DeferredNorm.h"
#include "runtime/training/GradientNorm.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/NotFiniteInputs.h"
#include "runtime/training/ParameterGroups.h"
#include "runtime/training/RootScale.h"
#include "runtime/training/SparseGradients.h"

#include <c10/core/GradMode.h>

#include <chrono>

namespace pipec {

llvm::Error ReferenceTraining::findLoss(const Signature &described, const std::vector<bool> &shown,
                                        std::vector<std::string> &notes,
                                        std::vector<std::string> &warnings) {
  LossLeaves found = TRY(lossLeaves(described, options.lossOutput, shown));
  if (found.count && options.reduction)
    return pairWithReduction();
  if (options.lossOutput.empty())
    describePair(described, found, shown, notes, warnings);
  if (const std::string onSum = warningOnSum(described, found, shown);
      !options.reduction && !onSum.empty())
    warnings.push_back(onSum);
  loss = found;
  return llvm::Error::success();
}

void describeLeaves(Signature &signature, const std::vector<c10::IValue> &leaves) {
  for (size_t l = 0; l < leaves.size(); ++l) {
    if (!leaves[l].isTensor() || !leaves[l].toTensor().defined())
      continue;
    signature.leaves[l].tensor = specOf(leaves[l].toTensor());
    signature.leaves[l].type = "Tensor";
  }
}

std::string ReferenceTraining::lossPath(const Signature &signature) const {
  if (!options.lossOutput.empty() || !loss || !loss->count)
    return options.lossOutput;
  return outputPath(signature, loss->loss) + "," + outputPath(signature, *loss->count);
}

llvm::Error Reference::train(const TrainingOptions &options) {
  auto training = std::make_shared<ReferenceTraining>();
  training->options = options;
  training->tensors = trainedTensors(*impl_->module);
  ParameterNames names;
  for (const TrainedTensor &each : training->tensors)
    names.push_back(each.names);
  std::vector<bool> isFrozen = TRY(frozen(options.freeze, names));
  TRY(checkAnyTrained(options, isFrozen));
  OptimizerSettings settings = TRY(optimizerSettings(options, names));
  for (size_t i = isFrozen.size(); i-- > 0;)
    if (isFrozen[i]) {
      const auto at = static_cast<int64_t>(i);
      training->tensors[i].tensor.requires_grad_(false);
      training->tensors.erase(training->tensors.begin() + at);
      if (settings.common)
        settings.each.erase(settings.each.begin() + at);
    }
  for (const auto &parameter : impl_->module->named_parameters())
    if (!parameter.value.requires_grad())
      training->frozen.emplace_back(parameter.name, parameter.value);
  if (options.batchNorm == BatchNorm::Deferred &&
      !training->norms.defer(*impl_->module, impl_->signature.method))
    return noBatchNorm();
  TRY(training->rates.set(options.learningRates, options.steps));
  if (settings.common) {
    if (!training->tensors.empty())
      training->optimizer.emplace();
    for (size_t i = 0; i < training->tensors.size(); ++i) {
      const TrainedTensor &each = training->tensors[i];
      OwnedParameter owned =
          TRY(ownedParameter(settings, settings.each[i], each.names.front(), each.tensor));
      training->optimizer->add(std::move(owned));
    }
    training->needsDense = whatNeedsDense(settings.each);
    training->rates.optimizer = std::move(settings.common);
  }
  impl_->training = std::move(training);
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Reference::step(const std::vector<c10::IValue> &inputs,
                                            StepStats *stats) {
  return stepOnBatches({inputs}, stats);
}

llvm::Expected<TrainedStep>
Reference::stepOnBatches(const std::vector<std::vector<c10::IValue>> &batches, StepStats *stats) {
  if (batches.empty())
    return makeError(ExitCode::Usage, "batches: expected at least 1, got 0");
  BatchParts all;
  TRY(impl_->finishDevice()); // the caller may have made the inputs on it
  // The first batch is tried in parts: the trial reads what its runs computed.
  auto splitAll = [&]() -> llvm::Error {
    for (const std::vector<c10::IValue> &batch : batches) {
      BatchParts parts = TRY(split(batch));
      for (size_t k = 0; k < parts.inputs.size(); ++k) {
        all.inputs.push_back(std::move(parts.inputs[k]));
        all.samples.push_back(parts.samples[k]);
      }
    }
    return llvm::Error::success();
  };
  TRY(impl_->onStream(splitAll));
  llvm::Expected<TrainedStep> done = stepOn(std::move(all), stats);
  if (done)
    impl_->training->given = 0;
  return done;
}

llvm::Expected<TrainedStep>
Reference::stepOnMicroBatches(const std::vector<std::vector<c10::IValue>> &microBatches,
                              StepStats *stats) {
  if (microBatches.empty())
    return makeError(ExitCode::Usage, "micro-batches: expected at least 1, got 0");
  if (!impl_->known && microBatches.front().size() == impl_->signature.inputs.size())
    impl_->guessBatch(microBatches.front());
  llvm::Expected<TrainedStep> done =
      stepOn(checkMicroBatches(impl_->signature, microBatches, SizesFrom::FirstBatch), stats);
  if (done)
    impl_->training->given = static_cast<int64_t>(microBatches.size());
  return done;
}

llvm::Expected<TrainedStep> Reference::stepOn(llvm::Expected<BatchParts> checked,
                                              StepStats *stats) {
  BatchParts parts = TRY(std::move(checked));
  if (!impl_->training)
    return makeError(ExitCode::Usage, "step: expected a reference that trains, got one that infers",
                     "call train() first");
  if (impl_->training->updating)
    return makeError(ExitCode::Other,
                     "the reference is unusable: the failed step has updated some weights",
                     "load the model again");
  TRY(checkAnySamples(parts));
  TRY(impl_->finishDevice());
  std::optional<TrainedStep> done;
  llvm::Error error = impl_->onStream([&]() -> llvm::Error {
    TrainedStep result = TRY(stepOrRestore(parts, stats));
    done = result;
    return llvm::Error::success();
  });
  if (error)
    return std::move(error);
  TRY(impl_->finishDevice());
  return *done;
}

llvm::Expected<TrainedStep> Reference::stepOrRestore(BatchParts &parts, StepStats *stats) {
  std::optional<ModuleStateCopy> before;
  if (impl_->keepsState)
    TRY(guardTorchVoid(ExitCode::Other, "copying the model's state",
                       [&] { before.emplace(impl_->module->_ivalue(), impl_->writesParameters); }));
  const uint64_t calls = impl_->calls;
  llvm::Expected<TrainedStep> result = stepOnce(parts, stats);
  if (result) {
    TRY(impl_->training->skipped.note(result->skipped, impl_->training->options.mostSkipped));
    return result;
  }
  impl_->calls = calls;
  if (before)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "restoring the model's state",
                                           [&] { before->restore(); })) {
      llvm::consumeError(result.takeError()); // a model with half of its state is worse
      return std::move(error);
    }
  return result;
}

llvm::Error ReferenceTraining::checkFlags(size_t k) const {
  const auto changed = [k](const std::string &name, bool before) {
    return makeError(ExitCode::Usage,
                     fmt::format("micro-batch {}: parameter {}: expected requires_grad {} after "
                                 "the forward, as before it, got {}",
                                 k, name, before, !before),
                     "freeze weights before the model is saved, or with --freeze NAME");
  };
  for (const TrainedTensor &each : tensors)
    if (!each.tensor.requires_grad())
      return changed(each.names.front(), true);
  for (const auto &[name, tensor] : frozen)
    if (tensor.requires_grad())
      return changed(name, false);
  return llvm::Error::success();
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

llvm::Expected<BatchParts> Reference::split(const std::vector<c10::IValue> &inputs) {
  Impl &impl = *impl_;
  if (inputs.size() != impl.signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", impl.signature.inputs.size(),
                 inputs.size());
  if (impl.options.microBatches == 1) {
    impl.guessBatch(inputs);
  } else if (!impl.known) {
    ThreadSettings settings(impl.threads);
    TRY(impl.learn(inputs));
  }
  return splitBatch(impl.signature, inputs, impl.options.microBatches, /*memory=*/{},
                    SizesFrom::FirstBatch);
}

/// Forward and backward of micro-batch `k`.
llvm::Error Reference::runMicroBatch(BatchParts &parts, size_t k, StepSums &sums) {
  Impl &impl = *impl_;
  ReferenceTraining &training = *impl.training;
  training.norms.beginMicroBatch(*impl.module);
  NormCalls norms;
  llvm::Expected<c10::IValue> value = [&] {
    const AutocastScope autocast(training.options.precision);
    return impl.run(*impl.module, parts.inputs[k], k, &sums.busyNs);
  }();
  if (!value)
    return impl.explained(value.takeError(), parts.inputs[k]);
  training.norms.note(norms.take());
  TRY(training.checkFlags(k));
  if (!training.loss && !impl.known) // one micro-batch, or ones that were cut before
    describeResult(impl.signature, *value);
  std::vector<c10::IValue> leaves = TRY(flattenOutputs(impl.signature, *value));
  if (!training.loss) {
    Signature described = impl.signature;
    describeLeaves(described, leaves);
    if (!impl.known && training.options.lossOutput.empty() && mayBePair(described)) {
      impl.tryPair(parts.inputs[k]);
      for (size_t l = 0; l < leaves.size(); ++l)
        described.leaves[l].merge = impl.signature.leaves[l].merge;
    }
    TRY(training.findLoss(described, impl.shown, impl.notes, impl.warnings));
  }
  if (k == 0)
    sums.scales =
        training.loss->count
            ? rootScalesOfSums(parts.inputs.size())
            : rootScales(parts.samples, training.options.reduction.value_or(LossReduction::Mean));
  if (training.loss->count) {
    const double counted = TRY(lossCount(leaves[*training.loss->count], k));
    sums.count = sums.count.value_or(0) + counted;
  }
  if (llvm::Error error = checkLoss(leaves[training.loss->loss], !training.tensors.empty()))
    return withContext(std::move(error), fmt::format("micro-batch {}", k));
  const at::Tensor loss = leaves[training.loss->loss].toTensor();
  *value = c10::IValue();
  leaves.clear();
  auto walkBack = [&] {
    std::vector<at::Tensor> found =
        gradientsFrom(loss, rootGradient(loss, sums.scales[k]), training.tensors);
    c10::AutoGradMode noGrad(false);
    for (size_t i = 0; i < found.size(); ++i)
      accumulateGradient(training.gradients[i], std::move(found[i]), training.tensors[i].tensor);
  };
  TRY(explainBackward(
      guardTorchVoid(ExitCode::Usage, fmt::format("the backward of micro-batch {}", k), walkBack),
      &*impl.module));
  sums.losses.push_back(loss.detach());
  return llvm::Error::success();
}

/// The order is that of RankTraining: the loss, the division by its count, the norm, the decision
/// whether the step counts, the clipping, the optimizer.
llvm::Expected<TrainedStep> ReferenceTraining::endStep(const StepSums &sums, uint64_t step) {
  TrainedStep result;
  c10::AutoGradMode noGrad(false);
  norms.endStep();
  LossSum total;
  for (size_t k = 0; k < sums.losses.size(); ++k)
    total.add(sums.losses[k], sums.scales[k]);
  result.loss = total.total(sums.count);
  const bool isCounted = !sums.count || isUsableCount(*sums.count);
  if (!isCounted && options.onNan == OnNan::Stop)
    return unusableCount(*sums.count);
  if (sums.count && isCounted)
    divideGradients(gradients, *sums.count);
  for (size_t i = 0; i < needsDense.size(); ++i)
    TRY(checkSparse(gradients[i], needsDense[i], tensors[i].names.front()));
  StepNumbers numbers;
  for (size_t k = 0; k < sums.losses.size(); ++k)
    if (!isFiniteNumber(sums.losses[k]))
      numbers[-1 - static_cast<int64_t>(k)] = sums.losses[k];
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      numbers[static_cast<int64_t>(i)] = gradientNorm(gradients[i]);
  const StepNorm judged = TRY(judge(
      numbers, options.onNan == OnNan::Skip,
      [&](size_t parameter) { return "parameter " + tensors[parameter].names.front(); },
      std::nullopt, optimizer && step > 0 && skipped.inARow() == 0));
  result.gradientNorm = judged.total.item<double>();
  result.skipped = !judged.isFinite || !isCounted;
  if (result.skipped)
    return result;
  if (options.clipNorm > 0) {
    if (options.keepGradients)
      for (const at::Tensor &gradient : gradients)
        kept.push_back(gradient.defined() ? gradient.clone() : gradient);
    clipGradients(gradients, clipFactor(judged.total, options.clipNorm));
  }
  result.learningRate = rates.at(step);
  if (optimizer) {
    updating = true; // stays so if it throws
    optimizer->step(rates.factorAt(step), gradients);
    updating = false;
  }
  return result;
}

llvm::Expected<TrainedStep> Reference::stepOnce(BatchParts &parts, StepStats *stats) {
  Impl &impl = *impl_;
  ReferenceTraining &training = *impl.training;
  TrainingSettings settings(impl.threads);
  training.gradients.assign(training.tensors.size(), at::Tensor());
  training.kept.clear();
  training.norms.beginStep();
  StepSums sums;
  const auto start = std::chrono::steady_clock::now();
  for (size_t k = 0; k < parts.inputs.size(); ++k)
    TRY(runMicroBatch(parts, k, sums));
  TRY(training.noteUse());
  std::optional<TrainedStep> result;
  auto end = [&]() -> llvm::Error {
    result = TRY(training.endStep(sums, impl.calls));
    return llvm::Error::success();
  };
  if (llvm::Error error = guardTorchError(ExitCode::Other, "ending the step", end))
    return withNotFiniteInputs(std::move(error), impl.signature, parts.inputs);
  const int64_t makespanNs =
      (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  ++impl.calls;
  if (stats)
    *stats = {makespanNs, {sums.busyNs}, 0, 0};
  return *result;
}

int64_t Reference::microBatches() const {
  return impl_->training && impl_->training->given ? impl_->training->given
                                                   : impl_->options.microBatches;
}

llvm::Error Reference::setLearningRates(const std::string &text, int64_t steps) {
  if (!impl_->training)
    return makeError(ExitCode::Usage, "learning rates: expected a reference that trains");
  return impl_->training->rates.set(text, steps);
}

} // namespace pipec
