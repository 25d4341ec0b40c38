#include "ir/BatchDimHint.h"

#include "ir/Values.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

std::vector<at::Tensor> tensorsWithDims(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (tensor.defined() && tensor.dim() > 0)
      tensors.push_back(tensor);
  });
  return tensors;
}

bool allHave(const std::vector<at::Tensor> &tensors, int64_t dim, int64_t size) {
  return llvm::all_of(tensors, [&](const at::Tensor &tensor) {
    return dim < tensor.dim() && tensor.size(dim) == size;
  });
}

/// The first dimension along which all of an input's tensors have `size`.
std::optional<int64_t> dimOf(const std::vector<at::Tensor> &tensors, int64_t size) {
  for (int64_t dim = 0; dim < tensors[0].dim(); ++dim)
    if (allHave(tensors, dim, size))
      return dim;
  return std::nullopt;
}

} // namespace

std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> named;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto tensors = tensorsWithDims(inputs[i]); !tensors.empty())
      named.emplace_back(&signature.inputs[i], std::move(tensors));
  if (named.size() < 2)
    return "";
  // The size along the first input's first dimension is the batch, unless it fits no other input
  // and the second one fits all: steps first, then samples.
  const at::Tensor &first = named[0].second[0];
  for (int64_t candidate = 0; candidate < (first.dim() > 2 ? 2 : 1); ++candidate) {
    int64_t size = first.size(candidate);
    std::string text;
    bool all = size > 1, isNew = false;
    for (const auto &[input, tensors] : named) {
      std::optional<int64_t> dim = dimOf(tensors, size);
      all = all && dim;
      if (dim.value_or(0) > 0) {
        text += fmt::format("{}{}={}", text.empty() ? "" : ",", input->name, *dim);
        isNew = isNew || input->batchDim != dim;
      }
    }
    if (all || (size > 1 && candidate == 0 && !text.empty()))
      return isNew ? text : "";
  }
  return "";
}

bool anyDimGiven(const Signature &signature, const std::vector<bool> &given) {
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] && signature.inputs[i].batchDim)
      return true;
  return false;
}

std::vector<size_t> guessOtherDims(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                   const std::vector<bool> &given, int64_t batch) {
  std::vector<size_t> guessed;
  if (batch < 1 || !anyDimGiven(signature, given))
    return guessed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputSpec &input = signature.inputs[i];
    const std::vector<at::Tensor> tensors = tensorsWithDims(inputs[i]);
    if (given[i] || input.batchDim || tensors.empty())
      continue;
    input.batchDim = dimOf(tensors, batch);
    if (input.batchDim)
      guessed.push_back(i);
  }
  return guessed;
}

} // namespace pipec
