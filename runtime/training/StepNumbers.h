// The losses and norms of gradients of a step: whether they are finite, and the norm of all.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace pipec {

/// The norm of each parameter's gradient by the number of the parameter, in the model's order, and
/// under -1 - k the loss of micro-batch k, at least if it is not finite. After clear() its memory
/// serves another step.
class StepNumbers {
public:
  StepNumbers() = default;
  StepNumbers(std::initializer_list<std::pair<int64_t, at::Tensor>> all);

  /// Undefined until it is set.
  at::Tensor &operator[](int64_t number);
  void clear();

  /// Ascending: first the losses, the last micro-batch first.
  llvm::ArrayRef<int64_t> numbers() const { return numbers_; }
  llvm::ArrayRef<at::Tensor> values() const { return values_; }
  size_t losses() const;
  llvm::ArrayRef<at::Tensor> norms() const { return values().drop_front(losses()); }

private:
  std::vector<int64_t> numbers_;
  std::vector<at::Tensor> values_; // of each
};

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
