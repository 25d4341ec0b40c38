// Adam and AdamW with the operators of torch.optim in Python.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"
#include "runtime/training/OptimizerText.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace pipec {

/// LibTorch's own C++ class averages with mul and add, PyTorch's Python with lerp: the bits differ,
/// and what Adam divides by makes the difference large. Users compare with Python, so this follows
/// it. Algorithms: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, 2015), "Decoupled
/// Weight Decay Regularization" (Loshchilov, Hutter, 2019).
class Adam {
public:
  /// settings: of "adam" or "adamw".
  Adam(const NamedSettings &settings, std::vector<at::Tensor> parameters);

  /// As Optimizer::step.
  void step(double learningRate, const std::vector<at::Tensor> &gradients);

  /// As Optimizer::state and Optimizer::setState.
  OptimizerState state(size_t parameter) const;
  void setState(size_t parameter, const OptimizerState &state);

private:
  /// Of one parameter; tensors are made by its first step.
  struct State {
    int64_t steps = 0;
    at::Tensor average, squares, largest;
  };
  void stepOne(double learningRate, at::Tensor parameter, at::Tensor gradient, State &state) const;

  double beta1_, beta2_, eps_, weightDecay_;
  bool decoupled_, amsgrad_;
  std::vector<at::Tensor> parameters_;
  std::vector<State> states_;
};

} // namespace pipec
