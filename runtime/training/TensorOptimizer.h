// Optimizers with the operators of torch.optim in Python.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"
#include "runtime/training/OptimizerText.h"

#include <ATen/core/Tensor.h>

#include <memory>

namespace pipec {

/// Steps one parameter and holds its state.
///
/// LibTorch's C++ classes average with mul and add where PyTorch's Python does with lerp: the bits
/// differ, and what is divided by makes the difference large. Users compare with Python, so these
/// follow it.
class TensorOptimizer {
public:
  TensorOptimizer(const TensorOptimizer &) = delete;
  virtual ~TensorOptimizer() = default;
  /// Updates `parameter` in place. The gradient is defined. Throws LibTorch's exceptions.
  void step(double learningRate, at::Tensor parameter, at::Tensor gradient);
  /// As Optimizer::state and Optimizer::setState.
  OptimizerState state() const;
  void setState(const OptimizerState &state);

protected:
  /// title: in messages. Decay is a part of the gradient, or of the update if it is `decoupled`.
  TensorOptimizer(const char *title, double weightDecay, bool decoupled = false)
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

/// Null for an optimizer whose C++ class has the bits of Python: sgd, adagrad.
std::unique_ptr<TensorOptimizer> makeTensorOptimizer(const NamedSettings &settings);

} // namespace pipec
