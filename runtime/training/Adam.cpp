#include "runtime/training/Adam.h"

#include "runtime/training/MultiplyBy.h"

#include <ATen/ops/maximum.h>

#include <cmath>

namespace pipec {

Adam::Adam(const NamedSettings &settings)
    : AveragingOptimizer(settings["weight_decay"], /*decoupled=*/settings.name == "adamw"),
      beta1_(settings["beta1"]), beta2_(settings["beta2"]), eps_(settings["eps"]),
      amsgrad_(settings["amsgrad"] == 1) {
  keep("exp_avg", average_);
  keep("exp_avg_sq", squares_);
  if (amsgrad_)
    keep("max_exp_avg_sq", largest_);
}

void Adam::update(double learningRate, int64_t step, at::Tensor &parameter,
                  const at::Tensor &gradient) {
  average_.lerp_(gradient, 1 - beta1_);
  multiplyBy(squares_, beta2_).addcmul_(gradient, gradient, 1 - beta2_);
  if (amsgrad_)
    at::maximum_out(largest_, largest_, squares_);
  const auto steps = static_cast<double>(step);
  const double correction1 = 1 - std::pow(beta1_, steps);
  const double correction2 = 1 - std::pow(beta2_, steps);
  const at::Tensor divisor =
      (amsgrad_ ? largest_ : squares_).sqrt().div(std::sqrt(correction2)).add_(eps_);
  parameter.addcdiv_(average_, divisor, -(learningRate / correction1));
}

} // namespace pipec
