#include "ir/batch/SuggestedDims.h"

#include "ir/batch/DimsOfSize.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

/// The size along a batch dimension other than the first, which only a user can name.
static std::optional<int64_t>
namedSize(const std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> &inputs) {
  for (const auto &[input, tensors] : inputs)
    if (int64_t dim = input->batchDim.value_or(0); dim > 0 && dim < tensors[0].dim())
      return tensors[0].size(dim);
  return std::nullopt;
}

NamedDims suggestedDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> named;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto tensors = tensorsWithDims(inputs[i]); !tensors.empty())
      named.emplace_back(&signature.inputs[i], std::move(tensors));
  if (named.size() < 2)
    return {};
  // Without a name, the size along the first input's first dimension is the batch. An exception is
  // an input of steps, then samples: that size fits no other input, and the second size fits all.
  const at::Tensor &first = named[0].second[0];
  const std::optional<int64_t> known = namedSize(named);
  for (int64_t candidate = 0; candidate < (first.dim() > 2 && !known ? 2 : 1); ++candidate) {
    const int64_t size = known.value_or(first.size(candidate));
    NamedDims dims;
    bool all = size > 1, isNew = false;
    for (const auto &[input, tensors] : named) {
      std::optional<int64_t> dim = input->batchDim && allHave(tensors, *input->batchDim, size)
                                       ? input->batchDim
                                       : dimOfSize(tensors, size);
      all = all && dim;
      if (dim.value_or(0) > 0) {
        dims.emplace_back(input - signature.inputs.data(), *dim);
        isNew = isNew || input->batchDim != dim;
      }
    }
    if (all || (size > 1 && candidate == 0 && !dims.empty()))
      return isNew ? dims : NamedDims();
  }
  return {};
}

std::string dimsText(const Signature &signature, const NamedDims &dims) {
  std::string text;
  for (const auto &[input, dim] : dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", signature.inputs[input].name, dim);
  return text;
}

std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  const NamedDims dims = suggestedDims(signature, inputs);
  const auto leader = llvm::find_if(
      inputs, [](const c10::IValue &value) { return !tensorsWithDims(value).empty(); });
  const bool mayHaveRows = llvm::any_of(dims, [&](const auto &entry) {
    const auto &[input, dim] = entry;
    const at::Tensor tensor = tensorsWithDims(inputs[input]).front();
    const int64_t batch = tensor.size(dim), rows = tensor.size(0);
    return &inputs[input] != leader && signature.inputs[input].batchDim != dim && rows > batch &&
           rows % batch == 0;
  });
  return mayHaveRows ? "" : dimsText(signature, dims);
}

std::vector<CutCandidate> cutsAlong(const NamedDims &dims, Signature signature,
                                    llvm::ArrayRef<c10::IValue> inputs, std::vector<bool> given) {
  for (const auto &[input, dim] : dims) {
    setCut(signature.inputs[input], ArgumentCut{dim});
    given[input] = true;
  }
  llvm::Expected<std::vector<CutCandidate>> ways = cutCandidates(signature, inputs, given);
  if (ways)
    return std::move(*ways);
  llvm::consumeError(ways.takeError()); // then there is nothing to suggest
  return {};
}

} // namespace pipec
