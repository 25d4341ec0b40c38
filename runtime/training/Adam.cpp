#include "runtime/training/Adam.h"

#include "runtime/training/OptimizerState.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace pipec {

Adam::Adam(const NamedSettings &settings)
    : beta1_(settings["beta1"]), beta2_(settings["beta2"]), eps_(settings["eps"]),
      weightDecay_(settings["weight_decay"]), decoupled_(settings.name == "adamw"),
      amsgrad_(settings["amsgrad"] == 1) {}

OptimizerState Adam::state() const {
  OptimizerState saved;
  if (steps_ == 0)
    return saved;
  saved.emplace_back("exp_avg", average_);
  saved.emplace_back("exp_avg_sq", squares_);
  if (amsgrad_)
    saved.emplace_back("max_exp_avg_sq", largest_);
  saved.emplace_back("step", steps_);
  return saved;
}

void Adam::setState(const OptimizerState &state) {
  Adam read(*this); // a state that lacks something changes nothing
  read.steps_ = state.empty() ? 0 : valueOf(state, "step").toInt();
  read.average_ = tensorOf(state, "exp_avg");
  read.squares_ = tensorOf(state, "exp_avg_sq");
  read.largest_ = amsgrad_ ? tensorOf(state, "max_exp_avg_sq") : at::Tensor();
  *this = std::move(read);
}

void Adam::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  TORCH_CHECK(!gradient.is_sparse(), "Adam does not support sparse gradients; use sgd or adagrad");
  if (weightDecay_ != 0 && decoupled_)
    parameter.mul_(1 - learningRate * weightDecay_);
  else if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (parameter.is_complex()) {
    parameter = at::view_as_real(parameter);
    gradient = at::view_as_real(gradient);
  }
  if (steps_++ == 0) {
    average_ = at::zeros_like(parameter);
    squares_ = at::zeros_like(parameter);
    largest_ = amsgrad_ ? at::zeros_like(parameter) : at::Tensor();
  }
  average_.lerp_(gradient, 1 - beta1_);
  squares_.mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
  if (amsgrad_)
    largest_ = at::maximum(largest_, squares_);
  const auto steps = static_cast<double>(steps_);
  const double correction1 = 1 - std::pow(beta1_, steps);
  const double correction2 = 1 - std::pow(beta2_, steps);
  const at::Tensor divisor =
      (amsgrad_ ? largest_ : squares_).sqrt().div(std::sqrt(correction2)).add_(eps_);
  parameter.addcdiv_(average_, divisor, -(learningRate / correction1));
}

} // namespace pipec
