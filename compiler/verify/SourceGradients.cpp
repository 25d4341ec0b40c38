#include "compiler/verify/SourceGradients.h"

#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

namespace pipec {

struct SourceTrainer::Impl {
  torch::jit::Module module;
};

SourceTrainer::SourceTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SourceTrainer::SourceTrainer(SourceTrainer &&) = default;
SourceTrainer &SourceTrainer::operator=(SourceTrainer &&) = default;
SourceTrainer::~SourceTrainer() = default;

llvm::Expected<SourceTrainer> SourceTrainer::load(const std::string &path, const SourceMode &mode) {
  torch::jit::Module module = TRY(loadSource(path, mode));
  removePrints(module);
  return SourceTrainer(std::make_unique<Impl>(Impl{std::move(module)}));
}

llvm::Expected<SourceStep> SourceTrainer::run(const Signature &signature,
                                              std::vector<c10::IValue> inputs, size_t loss,
                                              const at::Tensor &scale) {
  c10::IValue result = TRY(guardTorch(ExitCode::Usage, "running the model", [&] {
    return runMethod(impl_->module, signature.method, std::move(inputs));
  }));
  std::vector<c10::IValue> leaves = TRY(flattenOutputs(signature, result));
  return guardTorch(ExitCode::Usage, "the model's backward", [&] {
    SourceStep step;
    step.leaves = std::move(leaves);
    const std::vector<TrainedTensor> tensors = trainedTensors(impl_->module);
    std::vector<at::Tensor> found = gradientsFrom(step.leaves[loss].toTensor(), scale, tensors);
    for (size_t i = 0; i < tensors.size(); ++i)
      step.gradients.push_back({tensors[i].names, std::move(found[i])});
    return step;
  });
}

} // namespace pipec
