#include "compiler/verify/SourceGradients.h"

#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/torchfile/TorchFile.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>

#include <unordered_map>

namespace pipec {

namespace ag = torch::autograd;

struct SourceTrainer::Impl {
  torch::jit::Module module;
};

SourceTrainer::SourceTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SourceTrainer::SourceTrainer(SourceTrainer &&) = default;
SourceTrainer &SourceTrainer::operator=(SourceTrainer &&) = default;
SourceTrainer::~SourceTrainer() = default;

llvm::Expected<SourceTrainer> SourceTrainer::load(const std::string &path, const SourceMode &mode) {
  llvm::Expected<torch::jit::Module> module = loadSource(path, mode);
  if (!module)
    return module.takeError();
  removePrints(*module);
  return SourceTrainer(std::make_unique<Impl>(Impl{std::move(*module)}));
}

llvm::Expected<SourceStep> SourceTrainer::run(const Signature &signature,
                                              std::vector<c10::IValue> inputs, size_t loss,
                                              const at::Tensor &scale) {
  llvm::Expected<c10::IValue> result = guardTorch(ExitCode::Usage, "running the model", [&] {
    return runMethod(impl_->module, signature.method, std::move(inputs));
  });
  if (!result)
    return result.takeError();
  llvm::Expected<std::vector<c10::IValue>> leaves = flattenOutputs(signature, *result);
  if (!leaves)
    return leaves.takeError();
  return guardTorch(ExitCode::Usage, "the model's backward", [&] {
    SourceStep step;
    step.leaves = std::move(*leaves);
    ag::edge_list wanted;
    std::unordered_map<const void *, size_t> numbers; // only looked up
    for (const auto &[name, value] : impl_->module.named_attributes(/*recurse=*/true)) {
      if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().requires_grad() ||
          !value.toTensor().is_leaf())
        continue;
      const auto [known, isNew] =
          numbers.emplace(value.toTensor().unsafeGetTensorImpl(), step.gradients.size());
      if (isNew) {
        step.gradients.push_back({{}, {}});
        wanted.push_back(ag::impl::gradient_edge(value.toTensor()));
      }
      step.gradients[known->second].names.push_back(name);
    }
    const at::Tensor &root = step.leaves[loss].toTensor();
    if (!wanted.empty() && root.requires_grad()) {
      const ag::variable_list found = ag::Engine::get_default_engine().execute(
          {ag::impl::gradient_edge(root)}, {scale}, /*keep_graph=*/false, /*create_graph=*/false,
          /*accumulate_grad=*/false, wanted);
      for (size_t i = 0; i < found.size(); ++i)
        step.gradients[i].gradient = found[i];
    }
    return step;
  });
}

} // namespace pipec
