// Evaluation of an unsplit model between the steps of its training: the model once more, in eval
// mode, with the tensors of the one that trains.
#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/LossLeaf.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"
#include "runtime/EvaluationLoss.h"
#include "runtime/ReferenceTraining.h"
#include "runtime/StateCopy.h"

#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>

namespace pipec {

namespace {

using Object = c10::intrusive_ptr<c10::ivalue::Object>;

/// Gives `to` the tensors and values of `from`, which is of the same file. Training flags stay.
void takeOver(const Object &from, const Object &to) {
  const c10::ClassTypePtr type = to->type(), source = from->type();
  for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const std::string &name = type->getAttributeName(slot);
    const std::optional<size_t> other = source->findAttributeSlot(name);
    if (!other || (name == "training" && to->getSlot(slot).isBool()))
      continue;
    const c10::IValue &value = from->getSlot(*other);
    if (to->getSlot(slot).isObject()) {
      if (value.isObject() && to->getSlot(slot).toObject()->type()->is_module())
        takeOver(value.toObject(), to->getSlot(slot).toObject());
      continue;
    }
    if (value.isTensor() && to->getSlot(slot).isTensor()) {
      // A frozen parameter keeps the flag of its file, on which the bits of operators depend.
      const at::Tensor &own = to->getSlot(slot).toTensor();
      at::Tensor tensor = value.toTensor();
      if (tensor.defined())
        tensor = tensor.detach().set_requires_grad(own.defined() && own.requires_grad());
      to->setSlot(slot, tensor);
    } else {
      to->setSlot(slot, mapTensors(value, [](const at::Tensor &tensor) {
                    return tensor.defined()
                               ? tensor.detach().set_requires_grad(tensor.requires_grad())
                               : tensor;
                  }));
    }
  }
}

} // namespace

llvm::Error Reference::readFrom(const Reference &trained) {
  return guardTorchVoid(ExitCode::Other, "lending the weights", [&] {
    c10::AutoGradMode noGrad(false);
    takeOver(trained.impl_->module->_ivalue(), impl_->module->_ivalue());
  });
}

llvm::Expected<Evaluation> Reference::evaluate(const std::vector<c10::IValue> &inputs) {
  if (!impl_->training)
    return makeError(ExitCode::Usage,
                     "evaluate: expected a reference that trains, got one that infers",
                     "call train() first");
  if (!impl_->evaluation) {
    ReferenceOptions options = impl_->options;
    options.mode.training = false;
    options.mode.keepEval.clear();
    options.threads = impl_->threads;
    Reference loaded = TRY(load(impl_->path, options));
    impl_->evaluation = std::make_shared<Reference>(std::move(loaded));
  }
  Reference &evaluation = *impl_->evaluation;
  Impl &run = *evaluation.impl_;
  TRY(evaluation.readFrom(*this));
  std::optional<ModuleStateCopy> before;
  if (run.keepsState)
    TRY(guardTorchVoid(ExitCode::Other, "copying the model's state",
                       [&] { before.emplace(run.module->_ivalue(), run.writesParameters); }));
  run.calls = 0; // every evaluation draws the same numbers
  run.options.microBatches = std::min(
      impl_->options.microBatches,
      std::max<int64_t>(batchSizeOr(impl_->options.microBatches, impl_->signature, inputs), 1));
  llvm::Expected<Inferred> inferred = evaluation.inferLeaves(inputs, nullptr);
  if (before)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "restoring the model's state",
                                           [&] { before->restore(); })) {
      llvm::consumeError(inferred.takeError()); // a model with half of its state is worse
      return std::move(error);
    }
  if (!inferred)
    return inferred.takeError();
  const std::string path = impl_->training->lossPath(impl_->signature);
  if (path.empty() && !run.known && run.shown.empty() && run.signature.leaves.size() == 2)
    run.tryPair(inputs);
  Evaluation result;
  for (int64_t samples : inferred->samples)
    result.samples += samples;
  TRY(guardTorchError(ExitCode::Other, "merging the results", [&] {
    c10::AutoGradMode noGrad(false);
    return evaluation.mergeInto(result, *inferred, impl_->training->options, path);
  }));
  return result;
}

llvm::Error Reference::mergeInto(Evaluation &result, const Inferred &inferred,
                                 const TrainingOptions &options, const std::string &path) {
  Signature described = impl_->signature;
  describeLeaves(described, inferred.leaves.front());
  if (llvm::Expected<LossLeaves> which = lossLeaves(described, path, impl_->shown)) {
    TRY(addLoss(*which, inferred.leaves, inferred.samples, options, result));
  } else {
    llvm::consumeError(which.takeError()); // eval mode returns something else
  }
  c10::IValue merged = TRY(mergeOutputs(impl_->signature, inferred.leaves, inferred.samples));
  result.outputs = ValueTree::of(merged);
  return llvm::Error::success();
}

} // namespace pipec
