// The common part of optimizers that keep averages of gradients.
#pragma once

#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// Weight decay, the number of steps and the averages of one parameter.
class AveragingOptimizer : public TensorOptimizer {
public:
  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) final;
  OptimizerState state() const final;
  void setState(const OptimizerState &state) final;

protected:
  /// title: in messages. Decay is a part of the gradient, or of the update if it is `decoupled`.
  AveragingOptimizer(const char *title, double weightDecay, bool decoupled = false)
      : title_(title), weightDecay_(weightDecay), decoupled_(decoupled) {}

  /// `tensor`, a member, is a part of the state under this key: zeros before the first step. In
  /// order of keys.
  void keep(const char *key, at::Tensor &tensor) { kept_.emplace_back(key, &tensor); }
  /// `step`: from 1. Complex numbers are pairs of real ones here.
  virtual void update(double learningRate, int64_t step, at::Tensor &parameter,
                      const at::Tensor &gradient) = 0;

private:
  const char *title_;
  double weightDecay_;
  bool decoupled_;
  int64_t steps_ = 0;
  std::vector<std::pair<const char *, at::Tensor *>> kept_;
};

} // namespace pipec
