#include "ir/batch/discovery/SamplesByNumber.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <utility>

namespace pipec {

namespace {

bool holdsNumbers(const at::Tensor &tensor) {
  return tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) &&
         tensor.numel() > 0;
}

/// Whether numbers may name a sample that is missing if there are only `size`.
bool mayPointBeyond(const c10::IValue &value, int64_t size) {
  bool any = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    any |= holdsNumbers(tensor) && tensor.max().item<int64_t>() >= size;
  });
  return any;
}

/// Whether the model runs with `size` samples and the numbers of `reduced` inputs below it.
bool runsReduced(int64_t size, const std::vector<bool> &reduced, const Signature &signature,
                 llvm::ArrayRef<c10::IValue> inputs, ModelRunner run) {
  return doesRun(run, [&] {
    Values call;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const c10::IValue part = resizeBatch(inputs[i], cutOf(signature.inputs[i]), size);
      call.push_back(mapTensors(part, [&](const at::Tensor &tensor) {
        return reduced[i] && holdsNumbers(tensor) ? tensor.remainder(size) : tensor;
      }));
    }
    return call;
  });
}

/// The marked inputs whose numbers must stay below the size; all marked ones if no single one must.
std::vector<std::string> namesOf(std::vector<bool> beyond, const Signature &signature,
                                 llvm::ArrayRef<c10::IValue> inputs, int64_t size,
                                 ModelRunner run) {
  std::vector<std::string> names, all;
  std::vector<bool> reduced(inputs.size(), true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!beyond[i])
      continue;
    all.push_back(signature.inputs[i].name);
    reduced[i] = false; // a category, as of atoms, is in range anyway
    if (!runsReduced(size, reduced, signature, inputs, run))
      names.push_back(signature.inputs[i].name);
    reduced[i] = true;
  }
  return names.empty() ? all : names;
}

} // namespace

std::string samplesByNumber(Signature signature, llvm::ArrayRef<c10::IValue> inputs,
                            llvm::ArrayRef<int64_t> sizes, ModelRunner run) {
  std::vector<bool> beyond;
  llvm::Error error = guardTorchVoid(ExitCode::Other, "reading numbers", [&] {
    for (const c10::IValue &input : inputs)
      beyond.push_back(mayPointBeyond(input, sizes.front()));
  });
  if (error || !llvm::is_contained(beyond, true)) { // numbers that cannot be read name no sample
    llvm::consumeError(std::move(error));
    return "";
  }
  auto all = [&] {
    return llvm::all_of(sizes, [&](int64_t size) {
      return runsReduced(size, std::vector<bool>(inputs.size(), true), signature, inputs, run);
    });
  };
  bool does = all();
  if (!does) { // others may have as many rows by coincidence, as edges have weights
    bool first = true, changed = false;
    for (InputSpec &input : signature.inputs)
      if (isCut(input) && !std::exchange(first, false)) {
        setCut(input, {});
        changed = true;
      }
    does = changed && all();
  }
  if (!does)
    return "";
  const std::vector<std::string> names = namesOf(beyond, signature, inputs, sizes.front(), run);
  return fmt::format("{} {} to samples by index, and a part of the batch lacks some of them",
                     fmt::join(names, " and "), names.size() == 1 ? "refers" : "refer");
}

} // namespace pipec
