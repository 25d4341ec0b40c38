// An optimizer of the user's own among those of pipec.
#pragma once

#include "runtime/ParameterOptimizer.h"
#include "runtime/training/TensorOptimizer.h"

namespace pipec {

/// The name in settings and checkpoints.
constexpr const char *kUserOptimizer = "own";

class UserOptimizer : public TensorOptimizer {
public:
  explicit UserOptimizer(std::unique_ptr<ParameterOptimizer> own) : own_(std::move(own)) {}

  /// learningRate: the factor of the schedule.
  void step(double learningRate, at::Tensor parameter, at::Tensor gradient) override;
  OptimizerState state() const override;
  llvm::Error setState(const OptimizerState &state) override;

private:
  std::unique_ptr<ParameterOptimizer> own_;
};

} // namespace pipec
