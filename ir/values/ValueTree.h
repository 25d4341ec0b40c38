// Arguments and results of a model, for programs that do not see LibTorch's headers. Public.
#pragma once

#include "ir/support/Failure.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
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
///
///   ValueTree::dict({{"ids", *ids}, {"past", ValueTree::list({*key, *value})}, {"scale", 0.5}})
///
/// Parts have paths: the keys of dicts and the numbers of elements, joined by points, as "logits"
/// and "past.0.1"; the whole tree's is empty. Whoever asks for a part that is not there, or is
/// something else, gets an error of Usage with the path, what is there and what was asked for.
class ValueTree {
public:
  enum class Kind { None, Bool, Int, Float, String, Tensor, List, Tuple, Dict, Other };

  /// None.
  ValueTree();
  /// A boolean, an integer, or a number; text.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> ValueTree(T number) {
    if constexpr (std::is_same_v<T, bool>)
      *this = ofBool(number);
    else if constexpr (std::is_integral_v<T>)
      *this = ofInt(static_cast<int64_t>(number));
    else
      *this = ofFloat(static_cast<double>(number));
  }
  ValueTree(const std::string &text);
  ValueTree(const char *text) : ValueTree(std::string(text)) {}

  /// Its elements are copied. Errors: Usage (unknown dtype, bytes that do not fit the shape).
  static llvm::Expected<ValueTree> tensor(const TensorView &view);
  static ValueTree tuple(llvm::ArrayRef<ValueTree> elements);
  static ValueTree list(llvm::ArrayRef<ValueTree> elements);
  /// Of equal keys the last counts.
  static ValueTree dict(llvm::ArrayRef<std::pair<std::string, ValueTree>> entries);

  /// Arguments as the commands' --inputs takes them: a file that torch.save wrote, or a description
  /// as "f32[8,3,224,224],i64[8,128]<30000" (random, seeded). Errors: IO, Unreadable, Usage.
  static llvm::Expected<ValueTree> read(const std::string &fileOrDescription);
  /// A tuple of tensors, as positional arguments; their elements are copied. Errors: Usage naming
  /// the tensor (unknown dtype, bytes that do not fit the shape).
  static llvm::Expected<ValueTree> ofTensors(llvm::ArrayRef<TensorView> tensors);
  /// For programs that do see LibTorch's headers. Tensors are shared, not copied.
  static ValueTree of(const c10::IValue &value);
  const c10::IValue &ivalue() const { return *value_; }

  Kind kind() const;
  /// Elements of a list, tuple or dict; 0 of anything else.
  size_t size() const;
  /// The part at a path. A key may have points itself.
  llvm::Expected<ValueTree> at(llvm::StringRef path) const;
  /// The paths of everything that is no list, tuple or dict, and of those that are empty; depth
  /// first.
  std::vector<std::string> paths() const;

  llvm::Expected<bool> boolAt(llvm::StringRef path) const;
  llvm::Expected<int64_t> intAt(llvm::StringRef path) const;
  llvm::Expected<double> floatAt(llvm::StringRef path) const; // also of an integer
  llvm::Expected<std::string> stringAt(llvm::StringRef path) const;
  /// dtype, shape and bytes of a tensor; no data. Errors: also Unsupported, as forEachTensor.
  llvm::Expected<TensorView> tensorAt(llvm::StringRef path) const;
  /// Copies the elements of a tensor, row-major and dense. `bytes`: of the memory at `to`, as
  /// tensorAt() gives them. Errors: also those of forEachTensor.
  llvm::Error copyTensor(llvm::StringRef path, void *to, size_t bytes) const;
  /// The elements of a tensor of the dtype T: float, double, integers of 8 to 64 bits. uint8_t also
  /// takes a tensor of booleans.
  template <typename T> llvm::Expected<std::vector<T>> elementsAt(llvm::StringRef path) const {
    llvm::Expected<TensorView> view = tensorOfDtype(path, dtypeName<T>());
    if (!view)
      return view.takeError();
    std::vector<T> elements(view->bytes / sizeof(T));
    if (llvm::Error error = copyTensor(path, elements.data(), view->bytes))
      return std::move(error);
    return elements;
  }

  /// A file that the default torch.load reads; it appears complete or not at all, and replaces what
  /// is there. Errors: IO.
  llvm::Error write(const std::string &path) const;

  /// Calls `visit` on each tensor, depth first; a view is good during its call only. Errors:
  /// Unsupported at the first tensor that has no such view (quantised, sparse), Other when one
  /// cannot be copied from its device.
  llvm::Error forEachTensor(llvm::function_ref<void(const TensorView &)> visit) const;

private:
  explicit ValueTree(std::shared_ptr<const c10::IValue> value) : value_(std::move(value)) {}
  static ValueTree ofBool(bool value);
  static ValueTree ofInt(int64_t value);
  static ValueTree ofFloat(double value);
  llvm::Expected<TensorView> tensorOfDtype(llvm::StringRef path, llvm::StringRef dtype) const;
  template <typename T> static constexpr const char *dtypeName() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8);
    if constexpr (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? "float32" : "float64";
    else if constexpr (std::is_unsigned_v<T>)
      return sizeof(T) == 1   ? "uint8"
             : sizeof(T) == 2 ? "uint16"
             : sizeof(T) == 4 ? "uint32"
                              : "uint64";
    else
      return sizeof(T) == 1   ? "int8"
             : sizeof(T) == 2 ? "int16"
             : sizeof(T) == 4 ? "int32"
                              : "int64";
  }

  std::shared_ptr<const c10::IValue> value_;
};

} // namespace pipec
