// What a model's state was before a call, so that a call that fails leaves no trace.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <utility>
#include <vector>

namespace pipec {

/// State as it is now: tensors, numbers, containers, objects. Throws LibTorch's exceptions. Copies
/// run on the current stream of the tensors' device.
class StateCopy {
public:
  /// `writtenInPlace`: the model may write into these tensors and containers, so what is in them is
  /// copied. Otherwise it only replaces them, and they themselves are what has to be kept.
  StateCopy(llvm::ArrayRef<c10::IValue> values, bool writtenInPlace);

  /// Puts it back: into the very memory that it was in, as the bits of some operators depend on
  /// where their operands lie. Returns the values that the state had, in the same order.
  std::vector<c10::IValue> restore();

private:
  struct Shape {
    at::Tensor tensor;
    c10::Storage storage;
    int64_t offset;
    std::vector<int64_t> sizes, strides;
  };
  /// The part of a storage that the state shows: several tensors may show one memory.
  struct Bytes {
    c10::Storage storage;
    int64_t begin, end;
    at::Tensor copy;
  };

  at::Tensor keep(const at::Tensor &tensor);

  std::vector<c10::IValue> values_;
  std::vector<Shape> shapes_;
  std::vector<Bytes> bytes_;
};

/// The same of a whole module: its buffers and other attributes, and those of its modules.
/// Parameters are taken to stay as they are.
class ModuleStateCopy {
public:
  explicit ModuleStateCopy(const c10::intrusive_ptr<c10::ivalue::Object> &module);
  void restore();

private:
  void collect(const c10::intrusive_ptr<c10::ivalue::Object> &module);

  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, size_t>> slots_;
  std::vector<c10::IValue> values_;
  StateCopy copy_;
};

} // namespace pipec
