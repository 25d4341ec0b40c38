#include "runtime/ReferenceNorms.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace jit = torch::jit;

size_t ReferenceNorms::defer(const jit::Module &module) {
  isOn_ = true;
  size_t count = 0;
  for (jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graphFunction = jit::tryToGraphFunction(*function))
      count += deferBatchNorms(*graphFunction->graph()->block());
  return count;
}

void ReferenceNorms::beginStep() {
  calls_.clear();
  counted_.clear();
}

void ReferenceNorms::beginMicroBatch(const jit::Module &module) {
  if (!isOn_)
    return;
  c10::AutoGradMode noGrad(false);
  const bool isFirst = counted_.empty();
  for (const auto &[name, value] : module.named_buffers(/*recurse=*/true))
    if (countsBatches(name) && value.defined()) {
      if (isFirst)
        counted_[name] = value.clone();
      else
        at::Tensor(value).copy_(counted_[name]);
    }
}

void ReferenceNorms::note(std::vector<NormCall> calls) {
  if (isOn_)
    calls_.insert(calls_.end(), calls.begin(), calls.end());
}

void ReferenceNorms::endStep() {
  std::vector<std::vector<NormCall>> byNorm;
  std::map<const void *, size_t> numbers; // only looked up
  for (NormCall &call : calls_) {
    const auto [known, isNew] =
        numbers.emplace(call.runningMean.unsafeGetTensorImpl(), byNorm.size());
    if (isNew)
      byNorm.emplace_back();
    byNorm[known->second].push_back(call);
  }
  for (const std::vector<NormCall> &calls : byNorm)
    updateStatistics(calls.front().runningMean, calls.front().runningVar, calls);
  calls_.clear();
}

} // namespace pipec
