// Arguments and results of a model, for programs that do not see LibTorch's headers. Public.
#pragma once

#include "ir/plan/Failure.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10 {
struct IValue;
}

namespace pipec {

/// The elements of one tensor in memory: row-major and dense, on the CPU.
struct TensorView {
  std::string dtype; // PyTorch's names: "float32", "int64", "bool", ...
  std::vector<int64_t> shape;
  const void *data = nullptr; // owned by somebody else
  size_t bytes = 0;
};

/// A tree of tensors, numbers, strings, booleans and None in tuples, lists and dicts. A handle:
/// copies share one tree, which never changes, so any number of threads may read it.
class ValueTree {
public:
  /// Arguments as the commands' --inputs takes them: a file that torch.save wrote, or a description
  /// as "f32[8,3,224,224],i64[8,128]<30000" (random, seeded). Errors: IO, Unreadable, Usage.
  static llvm::Expected<ValueTree> read(const std::string &fileOrDescription);
  /// A tuple of tensors, as positional arguments; their elements are copied. Errors: Usage naming
  /// the tensor (unknown dtype, bytes that do not fit the shape).
  static llvm::Expected<ValueTree> ofTensors(llvm::ArrayRef<TensorView> tensors);
  /// For programs that do see LibTorch's headers. Tensors are shared, not copied.
  static ValueTree of(const c10::IValue &value);
  const c10::IValue &ivalue() const { return *value_; }

  /// A file that the default torch.load reads; it appears complete or not at all, and replaces what
  /// is there. Errors: IO.
  llvm::Error write(const std::string &path) const;

  /// Calls `visit` on each tensor, depth first; a view is good during its call only. Errors:
  /// Unsupported at the first tensor that has no such view (quantised, sparse), Other when one
  /// cannot be copied from its device.
  llvm::Error forEachTensor(llvm::function_ref<void(const TensorView &)> visit) const;

private:
  explicit ValueTree(std::shared_ptr<const c10::IValue> value) : value_(std::move(value)) {}
  std::shared_ptr<const c10::IValue> value_;
};

} // namespace pipec
