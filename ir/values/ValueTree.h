// Arguments and results of a model, for programs that do not include LibTorch's headers. Public.
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
  const void *data = nullptr; // not owned
  size_t bytes = 0;
};

/// A tree of tensors, numbers, strings, booleans and None in tuples, lists and dicts. It is a
/// handle: copies share one tree, which never changes, so any number of threads may read it.
///
///   ValueTree::dict({{"ids", *ids}, {"past", ValueTree::list({*key, *value})}, {"scale", 0.5}})
///
/// Parts have paths: the keys of dicts and the numbers of elements, joined by dots, as "logits" and
/// "past.0.1". The path of the whole tree is empty. A request for a part that does not exist or has
/// another type returns an error of Usage with the path, the actual type and the requested one.
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

  /// Copies the elements. Errors: Usage (unknown dtype, bytes that do not fit the shape).
  static llvm::Expected<ValueTree> tensor(const TensorView &view);
  static ValueTree tuple(llvm::ArrayRef<ValueTree> elements);
  static ValueTree list(llvm::ArrayRef<ValueTree> elements);
  /// If keys are equal, the last entry counts.
  static ValueTree dict(llvm::ArrayRef<std::pair<std::string, ValueTree>> entries);

  /// Arguments in the form of the commands' --inputs: a file written by torch.save, or a
  /// description such as "f32[8,3,224,224],i64[8,128]<30000" (random, seeded). Errors: IO,
  /// Unreadable, Usage.
  static llvm::Expected<ValueTree> read(const std::string &fileOrDescription);
  /// A tuple of tensors, for positional arguments. Copies the elements. Errors: Usage naming the
  /// tensor (unknown dtype, bytes that do not fit the shape).
  static llvm::Expected<ValueTree> ofTensors(llvm::ArrayRef<TensorView> tensors);
  /// For programs that include LibTorch's headers. Tensors are shared, not copied.
  static ValueTree of(const c10::IValue &value);
  const c10::IValue &ivalue() const { return *value_; }

  Kind kind() const;
  /// Number of elements of a list, tuple or dict; 0 for anything else.
  size_t size() const;
  /// The part at a path. Keys themselves may contain dots.
  llvm::Expected<ValueTree> at(llvm::StringRef path) const;
  /// The paths of all values other than lists, tuples and dicts, and of empty lists, tuples and
  /// dicts; depth first.
  std::vector<std::string> paths() const;

  llvm::Expected<bool> boolAt(llvm::StringRef path) const;
  llvm::Expected<int64_t> intAt(llvm::StringRef path) const;
  llvm::Expected<double> floatAt(llvm::StringRef path) const; // also for an integer
  llvm::Expected<std::string> stringAt(llvm::StringRef path) const;
  /// dtype, shape and number of bytes of a tensor, without data. Errors: also Unsupported, as
  /// forEachTensor.
  llvm::Expected<TensorView> tensorAt(llvm::StringRef path) const;
  /// Copies the elements of a tensor, row-major and dense. `bytes` is the size of the memory at
  /// `to`, which must be that of tensorAt(). Errors: also those of forEachTensor.
  llvm::Error copyTensor(llvm::StringRef path, void *to, size_t bytes) const;
  /// The elements of a tensor of the dtype T: float, double, integers of 8 to 64 bits. uint8_t also
  /// reads a tensor of booleans.
  template <typename T> llvm::Expected<std::vector<T>> elementsAt(llvm::StringRef path) const {
    llvm::Expected<TensorView> view = tensorOfDtype(path, dtypeName<T>());
    if (!view)
      return view.takeError();
    std::vector<T> elements(view->bytes / sizeof(T));
    if (llvm::Error error = copyTensor(path, elements.data(), view->bytes))
      return std::move(error);
    return elements;
  }

  /// Writes a file that the default torch.load reads. It appears complete or not at all, and
  /// replaces an existing file. Errors: IO.
  llvm::Error write(const std::string &path) const;

  /// Calls `visit` on each tensor, depth first. A view is valid only during its call. Errors:
  /// Unsupported at the first tensor without such a view (quantised, sparse), Other if a tensor
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
