#include "runtime/training/Optimizer.h"

#include "ir/support/Check.h"
#include "ir/support/Try.h"

#include <c10/core/GradMode.h>

namespace pipec {

void Optimizer::step(double rateFactor, const std::vector<at::Tensor> &gradients) {
  PIPEC_ASSERT(gradients.size() == parameters_.size(), "one gradient per parameter");
  c10::AutoGradMode noGrad(false);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const OwnedParameter &parameter = parameters_[i];
    if (gradients[i].defined())
      parameter.optimizer->step(parameter.rate * rateFactor, parameter.tensor, gradients[i]);
  }
}

llvm::Error Optimizer::setState(size_t parameter, OptimizerState state) {
  const OwnedParameter &owned = parameters_[parameter];
  for (auto &[key, value] : state)
    if (value.isTensor() && value.toTensor().defined())
      value = value.toTensor().to(owned.tensor.device());
  return owned.optimizer->setState(state);
}

llvm::Error Optimizer::checkState(size_t parameter, const OptimizerState &state) {
  TensorOptimizer &optimizer = *parameters_[parameter].optimizer;
  const OptimizerState before = optimizer.state();
  TRY(optimizer.setState(state)); // if it fails, it changes nothing
  return optimizer.setState(before);
}

} // namespace pipec
