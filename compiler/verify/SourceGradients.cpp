#include "compiler/verify/SourceGradients.h"

#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/autograd/BackwardErrors.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/ResultSnapshots.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>

#include <numeric>

namespace pipec {

struct SourceTrainer::Impl {
  torch::jit::Module module;
  std::vector<TrainedTensor> trained;
};

namespace {

/// After the first update, PyTorch refuses to use such a view.
llvm::Error refuseViewsOfWeights(const torch::jit::Module &module,
                                 llvm::ArrayRef<TrainedTensor> trained) {
  for (const auto &[name, value] : module.named_attributes(/*recurse=*/true)) {
    if (value.isObject())
      continue;
    const TrainedTensor *seen = nullptr;
    forEachTensor(value, [&](const at::Tensor &tensor) {
      if (!tensor.defined() || !tensor.is_view() || !tensor.is_leaf())
        return;
      const auto found = llvm::find_if(
          trained, [&](const TrainedTensor &each) { return tensor._base().is_same(each.tensor); });
      if (found != trained.end())
        seen = found;
    });
    if (seen)
      return refuseWith(Refusal::StateOfWeight, name, seen->names.front());
  }
  return llvm::Error::success();
}

} // namespace

SourceTrainer::SourceTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SourceTrainer::SourceTrainer(SourceTrainer &&) = default;
SourceTrainer &SourceTrainer::operator=(SourceTrainer &&) = default;
SourceTrainer::~SourceTrainer() = default;

llvm::Expected<SourceTrainer> SourceTrainer::load(SourceCopies &source) {
  torch::jit::Module module = TRY(source.next(Prints::Removed));
  std::vector<TrainedTensor> trained = trainedTensors(module);
  return SourceTrainer(std::make_unique<Impl>(Impl{std::move(module), std::move(trained)}));
}

llvm::Expected<SourceStep> SourceTrainer::run(const Signature &signature,
                                              std::vector<c10::IValue> inputs, size_t loss,
                                              const at::Tensor &scale) {
  llvm::Expected<c10::IValue> ran = guardTorch(ExitCode::Usage, "running the model", [&] {
    return runMethod(impl_->module, signature.method, inputs);
  });
  if (!ran)
    return withArguments(ran.takeError(), signature, inputs);
  c10::IValue result = std::move(*ran);
  inputs.clear();
  const std::vector<c10::IValue> leaves = TRY(flattenOutputs(signature, result));
  SourceStep step;
  llvm::Error failed = guardTorchVoid(ExitCode::Usage, "the model's backward", [&] {
    const std::vector<TrainedTensor> &trained = impl_->trained;
    std::vector<at::Tensor> found = gradientsFrom(leaves[loss].toTensor(), scale, trained);
    for (size_t i = 0; i < trained.size(); ++i)
      step.gradients.push_back({trained[i].names, std::move(found[i])});
    // The next call may write into state that a result shows.
    const c10::AutoGradMode noGrad(false);
    result = apartFrom(result, c10::IValue(impl_->module._ivalue()));
  });
  TRY(explainBackward(std::move(failed), &impl_->module));
  TRY(refuseViewsOfWeights(impl_->module, impl_->trained));
  step.leaves = TRY(flattenOutputs(signature, result));
  return step;
}

at::Tensor rootScale(const ExampleRun &run, size_t call, bool isPair, const at::Tensor &loss) {
  const int64_t samples = std::accumulate(run.batch.begin(), run.batch.end(), int64_t(0));
  const bool isPart = !isPair && samples > 0;
  const double part =
      isPart ? static_cast<double>(run.batch[call]) / static_cast<double>(samples) : 1;
  return at::full_like(loss, part);
}

llvm::Expected<std::vector<SourceStep>> trainSource(SourceCopies &copies,
                                                    const Signature &signature,
                                                    const LossLeaves &loss, const ExampleRun &run) {
  SourceTrainer source = TRY(SourceTrainer::load(copies));
  std::vector<SourceStep> steps;
  for (size_t c = 0; c < run.calls.size(); ++c) {
    at::manual_seed(kExampleSeed);
    const at::Tensor scale =
        rootScale(run, c, loss.count.has_value(), run.leaves[c][loss.loss].toTensor());
    llvm::Expected<SourceStep> step =
        source.run(signature, ownCopies(run.calls[c]), loss.loss, scale);
    if (!step)
      return withContext(step.takeError(), "--train");
    steps.push_back(std::move(*step));
  }
  return steps;
}

} // namespace pipec
