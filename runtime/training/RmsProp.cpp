#include "runtime/training/RmsProp.h"

#include "runtime/training/MultiplyBy.h"

namespace pipec {

RmsProp::RmsProp(const NamedSettings &settings)
    : AveragingOptimizer(settings["weight_decay"]), alpha_(settings["alpha"]),
      eps_(settings["eps"]), momentum_(settings["momentum"]), centered_(settings["centered"] == 1) {
  if (centered_)
    keep("grad_avg", average_);
  if (momentum_ > 0)
    keep("momentum_buffer", buffer_);
  keep("square_avg", squares_);
}

void RmsProp::update(double learningRate, int64_t, at::Tensor &parameter,
                     const at::Tensor &gradient) {
  multiplyBy(squares_, alpha_).addcmul_(gradient, gradient, 1 - alpha_);
  at::Tensor divisor;
  if (centered_) {
    average_.lerp_(gradient, 1 - alpha_);
    divisor = squares_.addcmul(average_, average_, -1).sqrt_();
  } else {
    divisor = squares_.sqrt();
  }
  divisor.add_(eps_);
  if (momentum_ > 0) {
    multiplyBy(buffer_, momentum_).addcdiv_(gradient, divisor);
    parameter.add_(buffer_, -learningRate);
  } else {
    parameter.addcdiv_(gradient, divisor, -learningRate);
  }
}

} // namespace pipec
