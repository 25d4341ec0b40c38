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
  virtual ~TensorOptimizer() = default;
  /// Updates `parameter` in place. The gradient is defined. Throws LibTorch's exceptions.
  virtual void step(double learningRate, at::Tensor parameter, at::Tensor gradient) = 0;
  /// As Optimizer::state and Optimizer::setState.
  virtual OptimizerState state() const = 0;
  virtual void setState(const OptimizerState &state) = 0;
};

/// Null for an optimizer whose C++ class has the bits of Python: sgd, adagrad.
std::unique_ptr<TensorOptimizer> makeTensorOptimizer(const NamedSettings &settings);

} // namespace pipec
