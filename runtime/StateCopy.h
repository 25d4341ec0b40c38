// A model's state before a call: a failed call restores it.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <utility>
#include <vector>

namespace pipec {

/// The current state: tensors, numbers, containers, objects. Throws LibTorch's exceptions. Copies
/// run on the current stream of the tensors' device. After forget() its memory serves another copy.
class StateCopy {
public:
  StateCopy() = default;
  StateCopy(llvm::ArrayRef<c10::IValue> values, bool writtenInPlace) {
    take(values, writtenInPlace);
  }

  /// Makes the copy. `writtenInPlace`: the model may write into these tensors and containers, so
  /// their content is copied. Otherwise it only replaces them, and keeping references to them is
  /// enough.
  void take(llvm::ArrayRef<c10::IValue> values, bool writtenInPlace);
  /// Whether there is a complete copy.
  bool isTaken() const { return isTaken_; }

  /// Restores the content in its original memory, because the bits of some operators depend on the
  /// addresses of their operands. Returns the values of the state in the same order.
  std::vector<c10::IValue> restore();
  void forget();

private:
  struct Shape {
    at::Tensor tensor;
    c10::Storage storage;
    int64_t offset;
    at::DimVector sizes, strides;
  };
  /// The part of a storage that the state uses: several tensors may share one memory.
  struct Bytes {
    c10::Storage storage;
    int64_t begin, end;
    at::Tensor copy;
  };

  at::Tensor keep(const at::Tensor &tensor);

  std::vector<c10::IValue> values_;
  std::vector<Shape> shapes_;
  std::vector<Bytes> bytes_;
  bool isTaken_ = false;
};

/// The same for a whole module: its buffers and other attributes, and those of its submodules.
/// `parameters`: the model may write into these, too; otherwise they stay as they are, without a
/// copy.
class ModuleStateCopy {
public:
  ModuleStateCopy(const c10::intrusive_ptr<c10::ivalue::Object> &module, bool parameters);
  void restore();

private:
  void collect(const c10::intrusive_ptr<c10::ivalue::Object> &module, bool parameters);

  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, size_t>> slots_;
  std::vector<c10::IValue> values_;
  StateCopy copy_;
};

} // namespace pipec
