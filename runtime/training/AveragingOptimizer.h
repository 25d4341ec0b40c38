// The common part of optimizers that keep averages of gradients.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Weight decay, the number of steps and the averages of one parameter. Gradients are dense:
/// checkSparse() refuses others.
class AveragingOptimizer : public TensorOptimizer {
public:
  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) final;
  OptimizerState state() const final;
  llvm::Error setState(const OptimizerState &state) final;

protected:
  /// Decay is a part of the gradient, or of the update if it is `decoupled`.
  explicit AveragingOptimizer(double weightDecay, bool decoupled = false)
      : weightDecay_(weightDecay), decoupled_(decoupled) {}

  /// `tensor`, a member, is a part of the state under this key: zeros before the first step. In
  /// order of keys.
  void keep(const char *key, at::Tensor &tensor) { kept_.emplace_back(key, &tensor); }
  /// `step`: from 1. Complex numbers are pairs of real ones here.
  virtual void update(double learningRate, int64_t step, at::Tensor &parameter,
                      const at::Tensor &gradient) = 0;

private:
  double weightDecay_;
  bool decoupled_;
  int64_t steps_ = 0;
  std::vector<std::pair<const char *, at::Tensor *>> kept_;
};

} // namespace pipec
