// RMSprop.
#pragma once

#include "runtime/training/AveragingOptimizer.h"

namespace pipec {

/// Algorithm: Hinton, "Neural Networks for Machine Learning", lecture 6e; centered: "Generating
/// Sequences With Recurrent Neural Networks" (Graves, 2013).
class RmsProp : public AveragingOptimizer {
public:
  /// settings: of "rmsprop".
  explicit RmsProp(const NamedSettings &settings);

private:
  void update(double learningRate, int64_t step, at::Tensor &parameter,
              const at::Tensor &gradient) override;

  double alpha_, eps_, momentum_;
  bool centered_;
  at::Tensor squares_, average_, buffer_;
};

} // namespace pipec
