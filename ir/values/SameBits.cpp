#include "ir/values/SameBits.h"

#include "ir/values/Values.h"

#include <ATen/core/Tensor.h>

#include <cstring>

namespace pipec {

namespace {

bool isPlain(const at::Tensor &tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         !tensor.is_nested() && !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() &&
         tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
}

bool areSame(const at::Tensor &a, const at::Tensor &b) {
  if (a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl())
    return true;
  return isPlain(a) && isPlain(b) && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.requires_grad() == b.requires_grad() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::vector<at::Tensor> tensorsOf(llvm::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : values)
    forEachTensor(value, [&](const at::Tensor &tensor) { tensors.push_back(tensor); });
  return tensors;
}

} // namespace

bool haveSameBits(llvm::ArrayRef<c10::IValue> a, llvm::ArrayRef<c10::IValue> b) {
  const std::vector<at::Tensor> ofA = tensorsOf(a), ofB = tensorsOf(b);
  if (a.size() != b.size() || ofA.size() != ofB.size())
    return false;
  for (size_t t = 0; t < ofA.size(); ++t)
    if (!areSame(ofA[t], ofB[t]))
      return false;
  for (size_t i = 0; i < a.size(); ++i) // the values that are no tensors
    if (a[i].isTensor() != b[i].isTensor() ||
        (!a[i].isTensor() && !compare(a[i], b[i], 0.0, 0.0).equal))
      return false;
  return true;
}

} // namespace pipec
