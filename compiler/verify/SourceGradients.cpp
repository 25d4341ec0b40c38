#include "compiler/verify/SourceGradients.h"

#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/autograd/BackwardErrors.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/ResultSnapshots.h"
#include "ir/support/Try.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>

#include <numeric>

namespace pipec {

struct SourceTrainer::Impl {
  torch::jit::Module module;
};

SourceTrainer::SourceTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SourceTrainer::SourceTrainer(SourceTrainer &&) = default;
SourceTrainer &SourceTrainer::operator=(SourceTrainer &&) = default;
SourceTrainer::~SourceTrainer() = default;

llvm::Expected<SourceTrainer> SourceTrainer::load(SourceCopies &source) {
  torch::jit::Module module = TRY(source.next(Prints::Removed));
  return SourceTrainer(std::make_unique<Impl>(Impl{std::move(module)}));
}

llvm::Expected<SourceStep> SourceTrainer::run(const Signature &signature,
                                              std::vector<c10::IValue> inputs, size_t loss,
                                              const at::Tensor &scale) {
  c10::IValue result = TRY(guardTorch(ExitCode::Usage, "running the model", [&] {
    return runMethod(impl_->module, signature.method, std::move(inputs));
  }));
  const std::vector<c10::IValue> leaves = TRY(flattenOutputs(signature, result));
  SourceStep step;
  llvm::Error failed = guardTorchVoid(ExitCode::Usage, "the model's backward", [&] {
    const std::vector<TrainedTensor> tensors = trainedTensors(impl_->module);
    std::vector<at::Tensor> found = gradientsFrom(leaves[loss].toTensor(), scale, tensors);
    for (size_t i = 0; i < tensors.size(); ++i)
      step.gradients.push_back({tensors[i].names, std::move(found[i])});
    // The next call may write into state that a result shows.
    const c10::AutoGradMode noGrad(false);
    result = apartFrom(result, c10::IValue(impl_->module._ivalue()));
  });
  TRY(explainBackward(std::move(failed), &impl_->module));
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
