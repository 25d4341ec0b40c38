// Adam and AdamW.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Algorithms: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, 2015), "Decoupled Weight
/// Decay Regularization" (Loshchilov, Hutter, 2019).
class Adam : public TensorOptimizer {
public:
  /// settings: of "adam" or "adamw".
  explicit Adam(const NamedSettings &settings);

  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) override;
  OptimizerState state() const override;
  void setState(const OptimizerState &state) override;

private:
  double beta1_, beta2_, eps_, weightDecay_;
  bool decoupled_, amsgrad_;
  int64_t steps_ = 0;
  at::Tensor average_, squares_, largest_; // made by the first step
};

} // namespace pipec
