#include "ir/batch/MicroBatch.h"

#include "ir/TorchError.h"
#include "ir/batch/SuggestedDims.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

namespace pipec {

namespace {

/// Dimensions from the largest stride to the smallest: the order in memory.
std::vector<int64_t> memoryOrder(const at::Tensor &tensor) {
  std::vector<int64_t> order(tensor.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

/// Whether several elements share memory, as those of an expanded tensor do.
bool isExpanded(const at::Tensor &tensor) {
  for (int64_t d = 0; tensor.layout() == at::kStrided && d < tensor.dim(); ++d)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1)
      return true;
  return false;
}

/// Repeats samples of a tensor, or leaves some out, up to `size`, in the same memory order
/// (channels_last stays channels_last). Samples keep their order: offsets and sorted lengths stay
/// sorted.
at::Tensor resizeTensor(const at::Tensor &tensor, int64_t dim, int64_t size) {
  if (dim >= tensor.dim() || tensor.size(dim) == size || tensor.size(dim) == 0)
    return tensor;
  std::vector<int64_t> indices(size);
  for (int64_t i = 0; i < size; ++i)
    indices[i] = i * tensor.size(dim) / size;
  if (isExpanded(tensor)) // in the order of a copy that has memory of its own
    return resizeTensor(tensor.clone(), dim, size);
  std::vector<int64_t> order = memoryOrder(tensor), back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[order[i]] = static_cast<int64_t>(i);
  at::Tensor index = at::tensor(indices, tensor.options().dtype(at::kLong).requires_grad(false));
  return at::index_select(tensor.permute(order), back[dim], index).permute(back);
}

constexpr size_t kAlignment = 64; // bytes; of memory from LibTorch

/// The number of elements by which the tensor misses an aligned address, as a part of another
/// tensor does.
int64_t misalignment(const at::Tensor &tensor) {
  if (tensor.numel() == 0 || !tensor.is_cpu())
    return 0;
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return static_cast<int64_t>(address % kAlignment / tensor.element_size());
}

/// A copy with the same strides and alignment: an operator may compute other bits with another
/// layout.
at::Tensor copyOfElements(const at::Tensor &tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    return tensor.clone();
  const int64_t skipped = misalignment(tensor);
  if (tensor.is_non_overlapping_and_dense() && skipped == 0)
    return tensor.clone();
  if (isExpanded(tensor)) // must not be written
    return tensor.clone();
  int64_t span = skipped + 1;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    span += (tensor.size(d) - 1) * tensor.stride(d);
  at::Tensor copy = tensor.numel() == 0
                        ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options())
                        : at::empty({span}, tensor.options())
                              .as_strided(tensor.sizes(), tensor.strides(), skipped);
  copy.copy_(tensor);
  return copy;
}

at::Tensor copyInLayout(const at::Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  at::Tensor copy = copyOfElements(tensor.detach());
  return tensor.requires_grad() ? copy.set_requires_grad(true) : copy;
}

/// Whether a dimension has the size of a batch. The last one holds features more often than
/// samples.
bool mayHoldSamples(const at::Tensor &tensor, int64_t samples) {
  return tensor.dim() > 0 && llvm::is_contained(tensor.sizes().slice(0, tensor.dim() - 1), samples);
}

/// `single`: an input that may be given whole, because it has one row and no samples elsewhere.
llvm::Error disagreement(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                         const std::string &problem, const std::string &single) {
  std::string dims = single.empty() ? suggestBatchDims(signature, inputs) : single + "=none";
  return makeError(
      ExitCode::Usage, problem,
      "name the batch dimension, or none, when you compile the model or run the .pt: --batch-dim " +
          (dims.empty() ? "NAME=K" : dims));
}

} // namespace

llvm::Expected<int64_t> batchSize(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::optional<int64_t> size;
  at::Tensor first; // that has this size
  std::string sizeFrom, problem, single;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (signature.batchSize == 0) // compiled without an example: parts are as the user named them
      TRY(expectParts(input, inputs[i]));
    if (!isCut(input))
      continue;
    const ArgumentCut cut = cutOf(input);
    auto look = [&](const std::string &name, const at::Tensor &tensor, std::optional<int64_t> dim) {
      if (!problem.empty() || !tensor.defined() || !dim)
        return;
      if (*dim >= tensor.dim()) {
        problem =
            fmt::format("input {}: expected a batch dimension {}, got a tensor of {} dimensions",
                        name, *dim, tensor.dim());
        return;
      }
      int64_t samples = tensor.size(*dim);
      if (size && *size != samples && sizeFrom == name)
        problem = fmt::format("input {}: expected tensors with one size along dimension {}, got {} "
                              "and {}; --batch-dim {}.PART=none leaves a part whole",
                              name, *dim, *size, samples, name);
      else if (size && *size != samples) {
        if (samples == 1 && !mayHoldSamples(tensor, *size))
          single = name;
        else if (*size == 1 && !mayHoldSamples(first, samples))
          single = sizeFrom;
        problem = fmt::format("input {}: expected a batch of {}, as input {} has, got {}", name,
                              *size, sizeFrom, samples);
      }
      if (!size) {
        size = samples;
        first = tensor;
        sizeFrom = name;
      }
    };
    if (cut.parts.empty())
      forEachTensor(inputs[i],
                    [&](const at::Tensor &tensor) { look(input.name, tensor, cut.dim); });
    else
      for (const auto &[path, tensor] : tensorsByPath(inputs[i]))
        look(input.name + (path.empty() ? "" : "." + path), tensor, cut.at(path));
  }
  if (!problem.empty())
    return disagreement(signature, inputs, problem, single);
  if (!size)
    return makeError(ExitCode::Usage,
                     "inputs: expected at least one with a batch dimension, got none",
                     "--batch-dim NAME=0");
  return *size;
}

int64_t batchSizeOr(int64_t otherwise, const Signature &signature,
                    llvm::ArrayRef<c10::IValue> inputs) {
  llvm::Expected<int64_t> size = batchSize(signature, inputs);
  if (size)
    return *size;
  llvm::consumeError(size.takeError()); // callers that cut the batch have checked it before
  return otherwise;
}

/// For an argument that the example left None, and for a part that it did not have, the batch
/// dimension is unknown. Every micro-batch would get a tensor with a row per sample whole, and
/// compute other numbers than the unsplit model.
static llvm::Error expectKnown(const InputSpec &input, const c10::IValue &value, int64_t samples) {
  auto hasRows = [&](const at::Tensor &tensor) {
    return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == samples;
  };
  const ArgumentCut cut = cutOf(input);
  if (!cut.dim && !cut.parts.empty())
    for (const auto &[path, tensor] : tensorsByPath(value))
      if (!cut.partOf(path) && hasRows(tensor))
        return makeError(
            ExitCode::Usage,
            fmt::format("argument {}: expected the parts of the example inputs of the compile "
                        "({}), got {} with {} rows for {} samples",
                        input.name, batchDimText(input), path, tensor.size(0), samples),
            fmt::format("compile with --batch-dim {0}.{1}=0 or {0}.{1}=none, or with example "
                        "inputs that have this part",
                        input.name, path));
  if (isCut(input) || input.tensor.known || !value.isTensor() || !hasRows(value.toTensor()) ||
      !startsWith(input.type, "Optional["))
    return llvm::Error::success();
  return makeError(
      ExitCode::Usage,
      fmt::format("argument {}: expected None with several micro-batches, as in the example inputs "
                  "of the compile, got a tensor with {} rows for {} samples",
                  input.name, value.toTensor().size(0), samples),
      fmt::format(
          "compile again with a first example (--inputs) that gives {} a value, which shows "
          "whether it is cut; or run one micro-batch",
          input.name));
}

llvm::Error refuseEmptyBatch(int64_t microBatches) {
  return makeError(
      ExitCode::Usage,
      fmt::format("micro-batches: expected 1, because the batch has no samples, got {}",
                  microBatches),
      "pass one micro-batch (--microbatches 1), or a batch with samples");
}

llvm::Expected<std::vector<std::vector<c10::IValue>>>
splitInputs(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs, int64_t microBatches,
            std::vector<std::vector<c10::IValue>> memory) {
  PIPEC_ASSERT(inputs.size() == signature.inputs.size(), "bound inputs");
  if (microBatches < 1)
    return failf(ExitCode::Usage, "micro-batches: expected at least 1, got {}", microBatches);
  // One micro-batch is the whole batch: nothing has to be cut.
  int64_t samples = 1;
  if (isCut(signature) || microBatches > 1)
    samples = TRY(batchSize(signature, inputs));
  if (samples == 0 && microBatches > 1)
    return refuseEmptyBatch(microBatches);
  if (microBatches > samples && microBatches > 1)
    return makeError(
        ExitCode::Usage,
        fmt::format("micro-batches: expected at most {}, the number of samples, got {}", samples,
                    microBatches),
        "pass a larger batch, or fewer micro-batches");

  for (size_t i = 0; i < inputs.size() && microBatches > 1; ++i)
    TRY(expectKnown(signature.inputs[i], inputs[i], samples));

  std::vector<std::vector<c10::IValue>> split = std::move(memory);
  split.resize(microBatches);
  TRY(guardTorchVoid(ExitCode::Usage, "cutting the inputs", [&] {
    int64_t start = 0;
    for (int64_t k = 0; k < microBatches; ++k) {
      int64_t size = samples / microBatches + (k < samples % microBatches ? 1 : 0);
      split[k].clear();
      split[k].reserve(inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        const InputSpec &input = signature.inputs[i];
        split[k].push_back(mapTensors(
            inputs[i], cutOf(input), [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
              const bool cut = dim && tensor.defined() && microBatches > 1;
              const at::Tensor part = cut ? tensor.narrow(*dim, start, size) : tensor;
              return input.written ? copyInLayout(part) : part;
            }));
      }
      start += size;
    }
  }));
  return split;
}

std::vector<c10::IValue> ownCopies(llvm::ArrayRef<c10::IValue> values) {
  std::vector<c10::IValue> result;
  for (const c10::IValue &value : values)
    result.push_back(mapTensors(value, copyInLayout));
  return result;
}

bool areAlignedAlike(llvm::ArrayRef<c10::IValue> a, llvm::ArrayRef<c10::IValue> b) {
  auto offsets = [](llvm::ArrayRef<c10::IValue> values) {
    std::vector<int64_t> all;
    for (const c10::IValue &value : values)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        const bool isPlain =
            tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage();
        all.push_back(isPlain ? misalignment(tensor) : 0);
      });
    return all;
  };
  return offsets(a) == offsets(b);
}

c10::IValue resizeBatch(const c10::IValue &value, const ArgumentCut &cut, int64_t size) {
  if (!cut.any())
    return value;
  return mapTensors(value, cut, [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
    return dim && tensor.defined() ? resizeTensor(tensor, *dim, size) : tensor;
  });
}

} // namespace pipec
