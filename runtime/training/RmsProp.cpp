#include "runtime/training/RmsProp.h"

#include "runtime/training/OptimizerState.h"

#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

namespace pipec {

RmsProp::RmsProp(const NamedSettings &settings)
    : alpha_(settings["alpha"]), eps_(settings["eps"]), weightDecay_(settings["weight_decay"]),
      momentum_(settings["momentum"]), centered_(settings["centered"] == 1) {}

OptimizerState RmsProp::state() const {
  OptimizerState saved;
  if (steps_ == 0)
    return saved;
  if (centered_)
    saved.emplace_back("grad_avg", average_);
  if (momentum_ > 0)
    saved.emplace_back("momentum_buffer", buffer_);
  saved.emplace_back("square_avg", squares_);
  saved.emplace_back("step", steps_);
  return saved;
}

void RmsProp::setState(const OptimizerState &state) {
  RmsProp read(*this); // a state that lacks something changes nothing
  read.steps_ = state.empty() ? 0 : valueOf(state, "step").toInt();
  read.squares_ = tensorOf(state, "square_avg");
  read.average_ = centered_ ? tensorOf(state, "grad_avg") : at::Tensor();
  read.buffer_ = momentum_ > 0 ? tensorOf(state, "momentum_buffer") : at::Tensor();
  *this = std::move(read);
}

void RmsProp::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  TORCH_CHECK(!gradient.is_sparse(),
              "RMSprop does not support sparse gradients; use sgd or adagrad");
  if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (parameter.is_complex()) {
    parameter = at::view_as_real(parameter);
    gradient = at::view_as_real(gradient);
  }
  if (steps_++ == 0) {
    squares_ = at::zeros_like(parameter);
    average_ = centered_ ? at::zeros_like(parameter) : at::Tensor();
    buffer_ = momentum_ > 0 ? at::zeros_like(parameter) : at::Tensor();
  }
  squares_.mul_(alpha_).addcmul_(gradient, gradient, 1 - alpha_);
  at::Tensor divisor;
  if (centered_) {
    average_.lerp_(gradient, 1 - alpha_);
    divisor = squares_.addcmul(average_, average_, -1).sqrt_();
  } else {
    divisor = squares_.sqrt();
  }
  divisor.add_(eps_);
  if (momentum_ > 0) {
    buffer_.mul_(momentum_).addcdiv_(gradient, divisor);
    parameter.add_(buffer_, -learningRate);
  } else {
    parameter.addcdiv_(gradient, divisor, -learningRate);
  }
}

} // namespace pipec
