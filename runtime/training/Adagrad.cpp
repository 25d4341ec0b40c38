#include "runtime/training/Adagrad.h"

#include "ir/support/Try.h"
#include "runtime/training/OptimizerState.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/view_as_real.h>

namespace pipec {

namespace {

at::Tensor sparse(const at::Tensor &like, const at::Tensor &values) {
  return at::sparse_coo_tensor(like._indices(), values, like.sizes());
}

} // namespace

Adagrad::Adagrad(const NamedSettings &settings)
    : rateDecay_(settings["lr_decay"]), weightDecay_(settings["weight_decay"]),
      initialSum_(settings["initial_accumulator_value"]), eps_(settings["eps"]) {}

void Adagrad::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  if (!sum_.defined())
    sum_ =
        at::full_like(parameter, parameter.is_complex()
                                     ? c10::Scalar(c10::complex<double>(initialSum_, initialSum_))
                                     : c10::Scalar(initialSum_));
  const double rate = learningRate / (1 + static_cast<double>(steps_++) * rateDecay_);
  if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (gradient.is_sparse()) { // only rows with a gradient change
    const at::Tensor rows = gradient.coalesce();
    sum_.add_(sparse(rows, rows._values().pow(2)));
    const at::Tensor divisor = sum_.sparse_mask(rows)._values().sqrt_().add_(eps_);
    parameter.add_(sparse(rows, rows._values().div(divisor)), -rate);
    return;
  }
  at::Tensor sum = sum_; // the real view shares its memory
  if (parameter.is_complex()) {
    gradient = at::view_as_real(gradient);
    sum = at::view_as_real(sum);
    parameter = at::view_as_real(parameter);
  }
  sum.addcmul_(gradient, gradient);
  parameter.addcdiv_(gradient, sum.sqrt().add_(eps_), -rate);
}

OptimizerState Adagrad::state() const {
  OptimizerState saved;
  if (!sum_.defined())
    return saved;
  saved.emplace_back("step", steps_);
  saved.emplace_back("sum", sum_);
  return saved;
}

llvm::Error Adagrad::setState(const OptimizerState &state) {
  const int64_t steps = TRY(stepsOf(state));
  sum_ = TRY(tensorOf(state, "sum"));
  steps_ = steps;
  return llvm::Error::success();
}

} // namespace pipec
