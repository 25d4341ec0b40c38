// The losses and norms of gradients of a step: whether they are finite, and the norm of all.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>

namespace pipec {

/// The norm of each parameter's gradient by the number of the parameter, in the model's order, and
/// under -1 - k the loss of micro-batch k, at least if it is not finite.
using StepNumbers = std::map<int64_t, at::Tensor>;

struct StepNorm {
  at::Tensor total;
  bool isFinite = true;
};

/// Errors: NotFinite naming the first micro-batch or parameter, unless `skipsNan`. `lossStage`: the
/// stage that makes the loss; absent: the model is not cut. `mayDiverge`: the step before was
/// finite and has changed weights. Throws LibTorch's exceptions.
llvm::Expected<StepNorm> judge(const StepNumbers &numbers, bool skipsNan,
                               const std::function<std::string(size_t parameter)> &nameOf,
                               std::optional<size_t> lossStage = std::nullopt,
                               bool mayDiverge = false);

/// The norm of all gradients, as judge() finds it.
at::Tensor normOf(const StepNumbers &numbers);
/// Whether all numbers are finite, as one flag on their device: the host does not wait.
at::Tensor allFinite(const StepNumbers &numbers);

/// Steps in a row that were not finite.
class SkippedSteps {
public:
  /// most: this many in a row are too many; 0: no limit. Errors: NotFinite.
  llvm::Error note(bool skipped, int64_t most);
  int64_t inARow() const { return inARow_; }
  void setInARow(int64_t number) { inARow_ = number; }

private:
  int64_t inARow_ = 0;
};

/// Whether a tensor of one number is finite.
bool isFiniteNumber(const at::Tensor &number);

} // namespace pipec
