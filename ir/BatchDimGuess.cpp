#include "ir/BatchDimGuess.h"

#include "ir/MicroBatch.h"
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

/// The first dimension, from `begin` on, along which all of an input's tensors have `size`.
std::optional<int64_t> dimOf(const std::vector<at::Tensor> &tensors, int64_t size,
                             int64_t begin = 0) {
  for (int64_t dim = begin; dim < tensors[0].dim(); ++dim)
    if (allHave(tensors, dim, size))
      return dim;
  return std::nullopt;
}

/// The size along a batch dimension that is not the first: nobody but the user said it.
std::optional<int64_t>
namedSize(const std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> &inputs) {
  for (const auto &[input, tensors] : inputs)
    if (int64_t dim = input->batchDim.value_or(0); dim > 0 && dim < tensors[0].dim())
      return tensors[0].size(dim);
  return std::nullopt;
}

bool allTensorsHave(const c10::IValue &value, int64_t batch) {
  size_t tensors = 0, follow = 0;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    ++tensors;
    follow += tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch;
  });
  return tensors > 0 && tensors == follow;
}

/// Size of the first tensor that has a dimension 0, among inputs whose batch dimension is ours to
/// find.
std::optional<int64_t> firstSize(llvm::ArrayRef<c10::IValue> inputs,
                                 const std::vector<bool> &given) {
  std::optional<int64_t> size;
  for (size_t i = 0; i < inputs.size() && !size; ++i)
    if (!given[i])
      forEachTensor(inputs[i], [&](const at::Tensor &tensor) {
        if (!size && tensor.defined() && tensor.dim() > 0)
          size = tensor.size(0);
      });
  return size;
}

} // namespace

llvm::Expected<int64_t> guessBatchDims(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                       const std::vector<bool> &given) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i])
      signature.inputs[i].batchDim.reset();
  int64_t batch = 0;
  bool anyGiven = llvm::any_of(signature.inputs,
                               [](const InputSpec &input) { return input.batchDim.has_value(); });
  if (anyGiven) {
    auto size = batchSize(signature, inputs);
    if (!size)
      return size.takeError();
    batch = *size;
  } else {
    batch = firstSize(inputs, given).value_or(0);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i] && batch > 0 && allTensorsHave(inputs[i], batch))
      signature.inputs[i].batchDim = 0;
  return batch;
}

bool leaveOutGuess(std::vector<bool> &given, const Signature &signature,
                   llvm::ArrayRef<c10::IValue> inputs) {
  if (anyDimGiven(signature, given))
    return false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i] && !tensorsWithDims(inputs[i]).empty()) {
      given[i] = true;
      return firstSize(inputs, given).has_value();
    }
  return false;
}

std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::vector<std::pair<const InputSpec *, std::vector<at::Tensor>>> named;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto tensors = tensorsWithDims(inputs[i]); !tensors.empty())
      named.emplace_back(&signature.inputs[i], std::move(tensors));
  if (named.size() < 2)
    return "";
  // Without a name, the size along the first input's first dimension is the batch, unless it fits
  // no other input and the second one fits all: steps first, then samples.
  const at::Tensor &first = named[0].second[0];
  const std::optional<int64_t> known = namedSize(named);
  for (int64_t candidate = 0; candidate < (first.dim() > 2 && !known ? 2 : 1); ++candidate) {
    int64_t size = known.value_or(first.size(candidate));
    std::string text;
    bool all = size > 1, isNew = false;
    for (const auto &[input, tensors] : named) {
      std::optional<int64_t> dim = input->batchDim && allHave(tensors, *input->batchDim, size)
                                       ? input->batchDim
                                       : dimOf(tensors, size);
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

std::vector<BatchDims> otherBatchDims(const Signature &signature,
                                      llvm::ArrayRef<c10::IValue> inputs,
                                      const std::vector<bool> &given, int64_t batch) {
  std::vector<BatchDims> guesses;
  if (batch < 1 || !anyDimGiven(signature, given))
    return guesses;
  auto guess = [&](BatchDims dims) {
    if (!llvm::is_contained(guesses, dims))
      guesses.push_back(std::move(dims));
  };
  // What is not cut yet, and what is cut along its first dimension but has the size elsewhere, too.
  BatchDims base;
  std::vector<std::pair<size_t, int64_t>> added, moved;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<int64_t> dim = base.emplace_back(signature.inputs[i].batchDim);
    const std::vector<at::Tensor> tensors = tensorsWithDims(inputs[i]);
    if (given[i] || tensors.empty())
      continue;
    if (std::optional<int64_t> other = dimOf(tensors, batch, dim ? *dim + 1 : 0))
      (dim ? moved : added).emplace_back(i, *other);
  }
  auto allOrAllButOne = [&](const BatchDims &all, llvm::ArrayRef<std::pair<size_t, int64_t>> of) {
    guess(all);
    for (const auto &[i, dim] : of) {
      BatchDims without = all;
      without[i].reset();
      guess(std::move(without));
    }
  };
  for (const auto &[i, dim] : added)
    base[i] = dim;
  if (!added.empty())
    allOrAllButOne(base, added);
  BatchDims all = base;
  for (const auto &[i, dim] : moved)
    all[i] = dim;
  if (!moved.empty())
    allOrAllButOne(all, moved);
  for (const auto &[i, dim] : moved) { // one may stay, or only one move
    BatchDims stays = all, moves = base;
    stays[i] = base[i];
    moves[i] = dim;
    guess(std::move(stays));
    guess(std::move(moves));
  }
  return guesses;
}

void setBatchDims(Signature &signature, const BatchDims &dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    signature.inputs[i].batchDim = dims[i];
}

} // namespace pipec
