#include "ir/values/TensorViews.h"

#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/text/TensorText.h"

namespace pipec {

llvm::Expected<std::string> viewableDtype(const at::Tensor &tensor) {
  llvm::Expected<std::string> dtype = dtypeText(tensor.scalar_type());
  if (dtype && tensor.layout() != at::kStrided)
    return refuseWith(Refusal::NoTextForm, "a tensor of layout " + c10::str(tensor.layout()));
  return dtype;
}

llvm::Expected<at::Tensor> plainTensor(const at::Tensor &tensor) {
  return guardTorch(ExitCode::Other, "copying a tensor to the CPU", [&] {
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
  });
}

} // namespace pipec
