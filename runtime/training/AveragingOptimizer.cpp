#include "runtime/training/AveragingOptimizer.h"

#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "runtime/training/MultiplyBy.h"
#include "runtime/training/OptimizerState.h"

#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

namespace pipec {

void AveragingOptimizer::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  PIPEC_ASSERT(!gradient.is_sparse(), "checkSparse() refuses sparse gradients before the step");
  if (weightDecay_ != 0 && decoupled_)
    multiplyBy(parameter, 1 - learningRate * weightDecay_);
  else if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (parameter.is_complex()) {
    parameter = at::view_as_real(parameter);
    gradient = at::view_as_real(gradient);
  }
  if (steps_++ == 0)
    for (const auto &[key, tensor] : kept_)
      *tensor = at::zeros_like(parameter);
  update(learningRate, steps_, parameter, gradient);
}

OptimizerState AveragingOptimizer::state() const {
  OptimizerState saved;
  if (steps_ == 0)
    return saved;
  for (const auto &[key, tensor] : kept_)
    saved.emplace_back(key, *tensor);
  saved.emplace_back("step", steps_);
  return saved;
}

llvm::Error AveragingOptimizer::setState(const OptimizerState &state) {
  const int64_t steps = TRY(stepsOf(state));
  std::vector<at::Tensor> tensors; // all first: a state that lacks something changes nothing
  for (const auto &[key, tensor] : kept_) {
    at::Tensor saved = TRY(tensorOf(state, key));
    tensors.push_back(std::move(saved));
  }
  steps_ = steps;
  for (size_t i = 0; i < kept_.size(); ++i)
    *kept_[i].second = std::move(tensors[i]);
  return llvm::Error::success();
}

} // namespace pipec
