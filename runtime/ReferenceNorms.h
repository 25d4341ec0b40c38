// BatchNorm::Deferred of a reference.
#pragma once

#include "runtime/training/DeferredNorm.h"

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>
#include <vector>

namespace pipec {

/// The batch norms of a module whose statistics are updated once per step. Without defer(), nothing
/// happens. Methods throw LibTorch's exceptions.
class ReferenceNorms {
public:
  /// Returns whether `method` may run a batch norm, itself or in what it calls. Call before the
  /// first run.
  bool defer(const torch::jit::Module &module, const std::string &method);

  void beginStep();
  /// Every micro-batch of a step counts its updates from the same number.
  void beginMicroBatch(const torch::jit::Module &module);
  void note(std::vector<NormCall> calls);
  /// Updates the statistics.
  void endStep();

private:
  bool isOn_ = false;
  std::vector<NormCall> calls_;
  std::map<std::string, at::Tensor> counted_; // by name, before the step
};

} // namespace pipec
