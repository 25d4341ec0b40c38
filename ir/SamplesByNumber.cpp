#include "ir/SamplesByNumber.h"

#include "ir/TorchError.h"
#include "ir/Values.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

bool holdsNumbers(const at::Tensor &tensor) {
  return tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) &&
         tensor.numel() > 0;
}

/// Numbers that could name a sample which is not there when only `size` are.
bool mayPointBeyond(const c10::IValue &value, int64_t size) {
  bool any = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    any |= holdsNumbers(tensor) && tensor.max().item<int64_t>() >= size;
  });
  return any;
}

} // namespace

std::string samplesByNumber(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            llvm::ArrayRef<int64_t> sizes, LeafRunner run) {
  std::vector<std::string> names;
  for (int64_t size : sizes) {
    std::vector<c10::IValue> call;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (size == sizes.front() && mayPointBeyond(inputs[i], size))
          names.push_back(signature.inputs[i].name);
        const c10::IValue part = resizeBatch(inputs[i], signature.inputs[i].batchDim, size);
        call.push_back(mapTensors(part, [&](const at::Tensor &tensor) {
          return holdsNumbers(tensor) ? tensor.remainder(size) : tensor;
        }));
      }
      call = ownCopies(call);
    });
    if (!error)
      error = names.empty() ? makeError(ExitCode::Other, "nothing points anywhere")
                            : run({std::move(call)}).takeError();
    if (error) {
      llvm::consumeError(std::move(error));
      return "";
    }
  }
  return fmt::format("{} {} samples by their number, and a part of them alone lacks some",
                     fmt::join(names, " and "), names.size() == 1 ? "names" : "name");
}

} // namespace pipec
