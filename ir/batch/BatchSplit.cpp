#include "ir/batch/BatchSplit.h"

#include "ir/batch/MicroBatch.h"
#include "ir/batch/SuggestedDims.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// The whole batch as the only micro-batch. Inputs that the model writes are copies, as in
/// splitInputs.
void setWhole(const Signature &signature, const std::vector<c10::IValue> &inputs,
              std::vector<c10::IValue> &microBatch) {
  microBatch = inputs;
  for (size_t i = 0; i < microBatch.size(); ++i)
    if (signature.inputs[i].written)
      microBatch[i] = std::move(ownCopies(microBatch[i]).front());
}

/// Whether every tensor with dimensions has the size 0 in the first, which shows no dimension of
/// the batch.
bool isEmptyBatch(const std::vector<c10::IValue> &inputs) {
  bool anyEmpty = false, anyFull = false;
  for (const c10::IValue &value : inputs)
    forEachTensor(value, [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.dim() > 0)
        (tensor.size(0) == 0 ? anyEmpty : anyFull) = true;
    });
  return anyEmpty && !anyFull;
}

/// The batch size may seem fixed only because an argument was not cut whose samples are along
/// another dimension.
llvm::Error explainFixed(llvm::Error error, const Signature &signature,
                         const std::vector<c10::IValue> &inputs, SizesFrom from) {
  std::string dims = signature.batchSymbolic ? "" : suggestBatchDims(signature, inputs);
  bool isNew = llvm::any_of(signature.inputs, [&](const InputSpec &input) {
    return !isCut(input) && llvm::StringRef("," + dims).contains("," + input.name + "=");
  });
  if (!isNew)
    return error;
  ErrorText text = describe(std::move(error));
  return makeError(text.code, text.message,
                   (text.help.empty() ? "" : text.help + ", or ") +
                       (from == SizesFrom::Compile ? "compile with" : "pass") + " --batch-dim " +
                       dims);
}

/// Whether the list has the length of the argument's default, which the model was written for.
bool hasUsualLength(const InputSpec &input, const c10::IValue &list) {
  const llvm::json::Array *usual = input.defaultValue ? input.defaultValue->getAsArray() : nullptr;
  return usual && usual->size() == list.toListRef().size();
}

/// Lists without tensors are never cut. With the length of the whole batch, such a list may have an
/// entry per sample, unless an example has shown that micro-batches of any size accept another
/// length.
llvm::Error refuseUncutLists(const Signature &signature, const std::vector<c10::IValue> &inputs,
                             int64_t microBatches, int64_t samples) {
  if (microBatches == 1 || (signature.batchSymbolic && signature.batchSize > 0))
    return llvm::Error::success();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isList() || !tensorsIn(inputs[i]).empty() ||
        static_cast<int64_t>(inputs[i].toListRef().size()) != samples ||
        samples == signature.batchSize || hasUsualLength(signature.inputs[i], inputs[i]))
      continue;
    return makeError(
        ExitCode::Usage,
        fmt::format("input {}: a list of {} entries for {} samples, which may be one per sample, "
                    "would be given to every micro-batch whole",
                    signature.inputs[i].name, samples, samples),
        signature.batchSize > 0
            ? "pass --microbatches 1, or a tensor with a row per sample"
            : "pass --microbatches 1, or compile with --inputs, which shows what the list is");
  }
  return llvm::Error::success();
}

/// Why nothing is cut, if a list of numbers or strings has an entry per row of a tensor: " (...)".
std::string listPerRow(const Signature &signature, const std::vector<c10::IValue> &inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t t = 0; t < inputs.size() && inputs[i].isList(); ++t) {
      const int64_t entries = static_cast<int64_t>(inputs[i].toListRef().size());
      if (!inputs[t].isTensor() || !inputs[t].toTensor().defined() ||
          inputs[t].toTensor().dim() == 0 || inputs[t].toTensor().size(0) != entries)
        continue;
      return fmt::format(
          " ({} is a list of {} entries, as many as dimension 0 of {} has, and lists "
          "are not cut by entries)",
          signature.inputs[i].name, entries, signature.inputs[t].name);
    }
  return "";
}

} // namespace

llvm::Expected<BatchParts> splitBatch(const Signature &signature,
                                      const std::vector<c10::IValue> &inputs, int64_t microBatches,
                                      BatchParts memory, SizesFrom from) {
  if (inputs.size() != signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", signature.inputs.size(),
                 inputs.size());
  BatchParts parts = std::move(memory);
  parts.samples.clear();
  // Compiled without an example, an artifact assumes that all arguments have a row per sample. One
  // micro-batch does not need this, so arguments whose sizes contradict the assumption still run.
  const bool assumed = signature.batchSize == 0;
  if (!isCut(signature) || (assumed && microBatches == 1)) {
    if (microBatches != 1 && isEmptyBatch(inputs))
      return refuseEmptyBatch(microBatches);
    if (microBatches != 1)
      return makeError(ExitCode::Usage,
                       fmt::format("no input has a batch dimension{}: expected 1 micro-batch, got "
                                   "{}",
                                   listPerRow(signature, inputs), microBatches),
                       "pass --microbatches 1, or name the dimensions with --batch-dim (of an "
                       "artifact: compile with it), as x=0, or k.0=0,k.1=none for the elements of "
                       "a list k");
    parts.inputs.resize(1);
    setWhole(signature, inputs, parts.inputs.front());
    parts.samples.push_back(batchSizeOr(1, signature, inputs));
  } else {
    int64_t size = TRY(batchSize(signature, inputs));
    TRY(refuseUncutLists(signature, inputs, microBatches, size));
    parts.inputs = TRY(splitInputs(signature, inputs, microBatches, std::move(parts.inputs)));
    parts.samples.reserve(microBatches);
    for (int64_t k = 0; k < microBatches; ++k)
      parts.samples.push_back(size / microBatches + (k < size % microBatches));
  }
  for (size_t k = 0; k < parts.inputs.size(); ++k)
    if (llvm::Error error = checkMicroBatch(signature, parts.inputs[k], static_cast<int64_t>(k),
                                            parts.samples[k], from))
      return explainFixed(std::move(error), signature, inputs, from);
  return parts;
}

llvm::Expected<BatchParts>
checkMicroBatches(const Signature &signature,
                  const std::vector<std::vector<c10::IValue>> &microBatches, SizesFrom from) {
  BatchParts all;
  for (size_t k = 0; k < microBatches.size(); ++k) {
    llvm::Expected<BatchParts> one = splitBatch(signature, microBatches[k], 1, {}, from);
    if (!one)
      return withContext(one.takeError(), fmt::format("micro-batch {}", k));
    all.inputs.push_back(std::move(one->inputs.front()));
    all.samples.push_back(one->samples.front());
  }
  return all;
}

llvm::Error checkAnySamples(const BatchParts &parts) {
  int64_t samples = 0;
  bool anyEmpty = false, anyFull = false;
  for (int64_t each : parts.samples)
    samples += each;
  for (const std::vector<c10::IValue> &inputs : parts.inputs)
    for (const c10::IValue &value : inputs)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (tensor.defined())
          (tensor.numel() == 0 ? anyEmpty : anyFull) = true;
      });
  if (!anyEmpty || (anyFull && samples > 0))
    return llvm::Error::success();
  return makeError(ExitCode::Usage, "batch: expected at least 1 sample to train on, got 0",
                   "pass a batch whose tensors are not empty");
}

} // namespace pipec
