// Optimizers on a list of tensors: LibTorch's own, and Adam.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"
#include "runtime/training/Adam.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace pipec {

/// Steps tensors that it shares with their owner. The step of one tensor does not depend on the
/// others, so any division of a model's parameters over several optimizers gives the same bits. One
/// thread at a time.
class Optimizer {
public:
  Optimizer(const NamedSettings &settings, std::vector<at::Tensor> parameters);
  Optimizer(Optimizer &&);
  Optimizer &operator=(Optimizer &&);
  ~Optimizer();

  /// Updates the parameters in place. gradients: one per parameter; undefined: this parameter stays
  /// as it is. Throws LibTorch's exceptions.
  void step(double learningRate, const std::vector<at::Tensor> &gradients);

  /// The state of one parameter, for a checkpoint: its tensors are the optimizer's own. Empty: none
  /// yet.
  OptimizerState state(size_t parameter) const;
  /// Replaces it, and takes the tensors over; empty: as before the first step. Throws LibTorch's
  /// exceptions for a state of another optimizer.
  void setState(size_t parameter, const OptimizerState &state);

private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_; // null: adam_
  std::optional<Adam> adam_;
  std::string name_;
  std::vector<at::Tensor> parameters_;
};

} // namespace pipec
