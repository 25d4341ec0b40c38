#include "ir/batch/DimsOfSize.h"

#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>

namespace pipec {

std::vector<at::Tensor> tensorsWithDims(const c10::IValue &value) {
  std::vector<at::Tensor> tensors = tensorsIn(value);
  llvm::erase_if(tensors,
                 [](const at::Tensor &tensor) { return !tensor.defined() || tensor.dim() == 0; });
  return tensors;
}

bool allHave(const std::vector<at::Tensor> &tensors, int64_t dim, int64_t size) {
  return llvm::all_of(tensors, [&](const at::Tensor &tensor) {
    return dim < tensor.dim() && tensor.size(dim) == size;
  });
}

std::optional<int64_t> dimOfSize(const std::vector<at::Tensor> &tensors, int64_t size,
                                 int64_t begin) {
  for (int64_t dim = begin; !tensors.empty() && dim < tensors[0].dim(); ++dim)
    if (allHave(tensors, dim, size))
      return dim;
  return std::nullopt;
}

} // namespace pipec
