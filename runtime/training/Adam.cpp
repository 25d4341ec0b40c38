#include "runtime/training/Adam.h"

#include "runtime/training/OptimizerState.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace pipec {

Adam::Adam(const NamedSettings &settings, std::vector<at::Tensor> parameters)
    : beta1_(settings["beta1"]), beta2_(settings["beta2"]), eps_(settings["eps"]),
      weightDecay_(settings["weight_decay"]), decoupled_(settings.name == "adamw"),
      amsgrad_(settings["amsgrad"] == 1), parameters_(std::move(parameters)),
      states_(parameters_.size()) {}

void Adam::step(double learningRate, const std::vector<at::Tensor> &gradients) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (gradients[i].defined())
      stepOne(learningRate, parameters_[i], gradients[i], states_[i]);
}

OptimizerState Adam::state(size_t parameter) const {
  const State &own = states_[parameter];
  OptimizerState saved;
  if (own.steps == 0)
    return saved;
  saved.emplace_back("exp_avg", own.average);
  saved.emplace_back("exp_avg_sq", own.squares);
  if (amsgrad_)
    saved.emplace_back("max_exp_avg_sq", own.largest);
  saved.emplace_back("step", own.steps);
  return saved;
}

void Adam::setState(size_t parameter, const OptimizerState &state) {
  State own;
  if (!state.empty()) {
    own.steps = valueOf(state, "step").toInt();
    own.average = valueOf(state, "exp_avg").toTensor();
    own.squares = valueOf(state, "exp_avg_sq").toTensor();
    if (amsgrad_)
      own.largest = valueOf(state, "max_exp_avg_sq").toTensor();
  }
  states_[parameter] = std::move(own);
}

void Adam::stepOne(double learningRate, at::Tensor parameter, at::Tensor gradient,
                   State &state) const {
  TORCH_CHECK(!gradient.is_sparse(), "Adam does not support sparse gradients; use sgd or adagrad");
  if (weightDecay_ != 0 && decoupled_)
    parameter.mul_(1 - learningRate * weightDecay_);
  else if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (parameter.is_complex()) {
    parameter = at::view_as_real(parameter);
    gradient = at::view_as_real(gradient);
  }
  if (state.steps++ == 0) {
    state.average = at::zeros_like(parameter);
    state.squares = at::zeros_like(parameter);
    state.largest = amsgrad_ ? at::zeros_like(parameter) : at::Tensor();
  }
  state.average.lerp_(gradient, 1 - beta1_);
  state.squares.mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
  if (amsgrad_)
    state.largest = at::maximum(state.largest, state.squares);
  const auto steps = static_cast<double>(state.steps);
  const double correction1 = 1 - std::pow(beta1_, steps);
  const double correction2 = 1 - std::pow(beta2_, steps);
  const at::Tensor divisor =
      (amsgrad_ ? state.largest : state.squares).sqrt().div(std::sqrt(correction2)).add_(eps_);
  parameter.addcdiv_(state.average, divisor, -(learningRate / correction1));
}

} // namespace pipec
