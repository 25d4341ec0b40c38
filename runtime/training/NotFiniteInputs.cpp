#include "runtime/training/NotFiniteInputs.h"

#include "ir/TorchError.h"
#include "ir/support/Llvm.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>

namespace pipec {

namespace {

using IsBad = at::Tensor (*)(const at::Tensor &);

bool hasBad(const c10::IValue &value, IsBad isBad) {
  bool found = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (tensor.defined() && (tensor.is_floating_point() || tensor.is_complex()) &&
        tensor.layout() == at::kStrided)
      found = found || isBad(tensor.detach()).any().item<bool>();
  });
  return found;
}

/// "x of micro-batch 1 has a NaN"; empty: none.
std::string firstBad(const Signature &signature,
                     llvm::ArrayRef<std::vector<c10::IValue>> microBatches, IsBad isBad,
                     const char *what) {
  for (size_t k = 0; k < microBatches.size(); ++k)
    for (size_t i = 0; i < std::min(microBatches[k].size(), signature.inputs.size()); ++i)
      if (hasBad(microBatches[k][i], isBad))
        return fmt::format("argument {} of micro-batch {} has {}", signature.inputs[i].name, k,
                           what);
  return "";
}

} // namespace

llvm::Error withNotFiniteInputs(llvm::Error error, const Signature &signature,
                                llvm::ArrayRef<std::vector<c10::IValue>> microBatches) {
  if (!error)
    return error;
  ErrorText text = describe(std::move(error));
  if (text.code != ExitCode::NotFinite)
    return makeError(text.code, text.message, text.help);
  std::string found;
  // What cannot be examined, as on a device that was lost, is not blamed.
  llvm::consumeError(guardTorchVoid(ExitCode::Other, "the arguments", [&] {
    found = firstBad(signature, microBatches, at::isnan, "a NaN");
    if (found.empty())
      found = firstBad(signature, microBatches, at::isinf, "an infinite number");
  }));
  if (!found.empty())
    text.help = found + (text.help.empty() ? "" : "; " + text.help);
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
