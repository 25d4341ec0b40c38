// Stochastic gradient descent with momentum.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Algorithm: "On the importance of initialization and momentum in deep learning" (Sutskever,
/// Martens, Dahl, Hinton, 2013), as torch.optim.SGD has it: the first gradient is not dampened.
/// Takes sparse gradients.
class Sgd : public TensorOptimizer {
public:
  /// settings: of "sgd".
  explicit Sgd(const NamedSettings &settings);

  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) override;
  OptimizerState state() const override;
  llvm::Error setState(const OptimizerState &state) override;

private:
  double momentum_, dampening_, weightDecay_;
  bool nesterov_;
  at::Tensor buffer_; // undefined before the first step, and without momentum
};

} // namespace pipec
