// RMSprop.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Algorithm: Hinton, "Neural Networks for Machine Learning", lecture 6e; centered: "Generating
/// Sequences With Recurrent Neural Networks" (Graves, 2013).
class RmsProp : public TensorOptimizer {
public:
  /// settings: of "rmsprop".
  explicit RmsProp(const NamedSettings &settings);

  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) override;
  OptimizerState state() const override;
  void setState(const OptimizerState &state) override;

private:
  double alpha_, eps_, weightDecay_, momentum_;
  bool centered_;
  int64_t steps_ = 0;
  at::Tensor squares_, average_, buffer_; // made by the first step
};

} // namespace pipec
