// Adagrad.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Algorithm: "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization"
/// (Duchi, Hazan, Singer, 2011). Takes sparse gradients if there is no weight decay.
class Adagrad : public TensorOptimizer {
public:
  /// settings: of "adagrad".
  explicit Adagrad(const NamedSettings &settings);

  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) override;
  OptimizerState state() const override;
  llvm::Error setState(const OptimizerState &state) override;

private:
  double rateDecay_, weightDecay_, initialSum_, eps_;
  int64_t steps_ = 0;
  at::Tensor sum_; // of squares; undefined before the first step
};

} // namespace pipec
