// Optimizers on a list of tensors: LibTorch's own, and Adam.
#pragma once

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

private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_; // null: adam_
  std::optional<Adam> adam_;
  std::vector<at::Tensor> parameters_;
};

} // namespace pipec
