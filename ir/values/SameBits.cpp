#include "ir/values/SameBits.h"

#include "ir/TensorBytes.h"
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

std::vector<at::Tensor> tensorsOf(llvm::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : values)
    llvm::append_range(tensors, tensorsIn(value));
  return tensors;
}

} // namespace

bool haveSameBits(llvm::ArrayRef<c10::IValue> a, llvm::ArrayRef<c10::IValue> b) {
  const std::vector<at::Tensor> ofA = tensorsOf(a), ofB = tensorsOf(b);
  if (a.size() != b.size() || ofA.size() != ofB.size())
    return false;
  for (size_t t = 0; t < ofA.size(); ++t)
    if (!ofA[t].is_same(ofB[t]) && !haveSameBits(ofA[t], ofB[t]))
      return false;
  for (size_t i = 0; i < a.size(); ++i) // the values that are no tensors
    if (a[i].isTensor() != b[i].isTensor() ||
        (!a[i].isTensor() && !compare(a[i], b[i], 0.0, 0.0).equal))
      return false;
  return true;
}

} // namespace pipec
