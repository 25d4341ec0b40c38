#include "ir/batch/discovery/FullerCut.h"

#include <ATen/core/Tensor.h>

namespace pipec {

std::optional<CutCandidate> fullerCut(const CutCandidate &chosen,
                                      llvm::ArrayRef<CutCandidate> seconds,
                                      llvm::ArrayRef<c10::IValue> inputs) {
  if (seconds.empty())
    return std::nullopt;
  const CutCandidate &second = seconds.front();
  bool hasMore = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (chosen.dims[i].any() && !second.dims[i].any())
      return std::nullopt;
    if (chosen.dims[i].any() || second.dims[i].dim != 1 || !inputs[i].isTensor())
      continue;
    const at::Tensor &tensor = inputs[i].toTensor();
    hasMore = hasMore || (tensor.dim() > 2 && tensor.size(0) > 1);
  }
  return hasMore ? std::optional(second) : std::nullopt;
}

} // namespace pipec
