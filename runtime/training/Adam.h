// Adam and AdamW.
#pragma once

#include "runtime/training/AveragingOptimizer.h"

namespace pipec {

/// Algorithms: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, 2015), "Decoupled Weight
/// Decay Regularization" (Loshchilov, Hutter, 2019).
class Adam : public AveragingOptimizer {
public:
  /// settings: of "adam" or "adamw".
  explicit Adam(const NamedSettings &settings);

private:
  void update(double learningRate, int64_t step, at::Tensor &parameter,
              const at::Tensor &gradient) override;

  double beta1_, beta2_, eps_;
  bool amsgrad_;
  at::Tensor average_, squares_, largest_;
};

} // namespace pipec
