#include "runtime/SentWeights.h"

#include <ATen/core/Tensor.h>

namespace pipec {

bool SentWeights::isNews(size_t lane, size_t channel, const StageAttribute &about,
                         const c10::IValue &value, uint64_t updates) {
  // Kernels write statistics without counting it.
  if (about.kind != AttributeKind::Parameter || about.written || !value.isTensor() ||
      value.toTensor().is_inference())
    return true;
  const at::Tensor &tensor = value.toTensor();
  const Version now{tensor, static_cast<uint32_t>(tensor._version()),
                    tensor.requires_grad() ? updates : 0};
  Version &last = last_[{lane, channel}];
  if (last == now)
    return false;
  last = now;
  return true;
}

} // namespace pipec
