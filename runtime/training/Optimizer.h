// An optimizer on a list of tensors.
#pragma once

#include "runtime/training/TensorOptimizer.h"

#include <memory>
#include <vector>

namespace pipec {

/// A tensor that an optimizer updates.
struct OwnedParameter {
  at::Tensor tensor;
  double rate = 0; // learning rate without its schedule
  std::unique_ptr<TensorOptimizer> optimizer;
};

/// Steps tensors that it shares with their owner. The step of one tensor does not depend on the
/// others, so any division of a model's parameters over several optimizers gives the same bits. One
/// thread at a time.
class Optimizer {
public:
  void add(OwnedParameter parameter) { parameters_.push_back(std::move(parameter)); }

  /// Updates the parameters in place, with the learning rate of each times `rateFactor`. gradients:
  /// one per parameter; undefined: this parameter stays as it is. Throws LibTorch's exceptions.
  void step(double rateFactor, const std::vector<at::Tensor> &gradients);

  /// The state of one parameter, for a checkpoint: its tensors are the optimizer's own. Empty: none
  /// yet.
  OptimizerState state(size_t parameter) const { return parameters_[parameter].optimizer->state(); }
  /// Replaces it; empty: as before the first step. Tensors on the device of the parameter are taken
  /// over, others are copied to it. Errors: BadArtifact for a state of another optimizer. Throws
  /// LibTorch's exceptions.
  llvm::Error setState(size_t parameter, OptimizerState state);
  /// Whether setState() would take it. Changes nothing. Errors and exceptions: those of setState.
  llvm::Error checkState(size_t parameter, const OptimizerState &state);

private:
  std::vector<OwnedParameter> parameters_;
};

} // namespace pipec
