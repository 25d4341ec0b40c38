#include "runtime/training/Optimizer.h"

#include "ir/support/Check.h"

#include <c10/core/GradMode.h>

namespace pipec {

Optimizer::Optimizer(const std::vector<NamedSettings> &settings, std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)) {
  PIPEC_ASSERT(settings.size() == parameters_.size(), "settings for each parameter");
  for (const NamedSettings &each : settings) {
    rates_.push_back(each["lr"]);
    own_.push_back(makeTensorOptimizer(each));
  }
}

void Optimizer::step(double rateFactor, const std::vector<at::Tensor> &gradients) {
  PIPEC_ASSERT(gradients.size() == parameters_.size(), "one gradient per parameter");
  c10::AutoGradMode noGrad(false);
  for (size_t i = 0; i < own_.size(); ++i)
    if (gradients[i].defined())
      own_[i]->step(rates_[i] * rateFactor, parameters_[i], gradients[i]);
}

} // namespace pipec
