// Optimizers with the operators of torch.optim in Python.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"
#include "runtime/training/OptimizerText.h"

#include <ATen/core/Tensor.h>

#include <memory>

namespace pipec {

/// Steps one parameter and holds its state.
///
/// LibTorch's C++ classes average with mul and add where PyTorch's Python uses lerp, and they round
/// factors to the dtype of the weights (see multiplyBy()). The bits differ, and divisions by small
/// numbers enlarge the difference. Users compare with Python, so these optimizers follow Python.
class TensorOptimizer {
public:
  TensorOptimizer() = default;
  TensorOptimizer(const TensorOptimizer &) = delete;
  virtual ~TensorOptimizer() = default;
  /// Updates `parameter` in place. The gradient is defined. Throws LibTorch's exceptions.
  virtual void step(double learningRate, at::Tensor parameter, at::Tensor gradient) = 0;
  /// As Optimizer::state and Optimizer::setState.
  virtual OptimizerState state() const = 0;
  virtual llvm::Error setState(const OptimizerState &state) = 0;
};

/// settings: of an optimizer of the table (OptimizerText.h).
std::unique_ptr<TensorOptimizer> makeTensorOptimizer(const NamedSettings &settings);

} // namespace pipec
