#include "runtime/LearnSignature.h"

#include "ir/BatchDimGuess.h"
#include "ir/FixedBatch.h"
#include "ir/SamplesByNumber.h"
#include "ir/SamplesInLists.h"
#include "ir/Values.h"
#include "runtime/ResultTree.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

namespace pipec {

namespace {

using Inputs = std::vector<c10::IValue>;

/// Inputs of one micro-batch before anything is known, and how they were cut.
struct ExampleMicroBatch {
  Inputs inputs;
  BatchDims dims; // empty: not cut at all
};

/// The first `samples` of what `dims` say is cut, more than there are: some of them again; what is
/// not cut is whole.
ExampleMicroBatch cutExample(const Inputs &inputs, const BatchDims &dims, int64_t samples) {
  ExampleMicroBatch example{inputs, dims};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<int64_t> dim = dims[i];
    const c10::IValue first = mapTensors(inputs[i], [&](const at::Tensor &tensor) {
      return dim && tensor.defined() && *dim < tensor.dim() && tensor.size(*dim) > samples
                 ? tensor.narrow(*dim, 0, samples)
                 : tensor;
    });
    example.inputs[i] = resizeBatch(first, dim, samples);
  }
  return example;
}

BatchDims dimsOf(const Signature &signature) {
  BatchDims dims;
  for (const InputSpec &input : signature.inputs)
    dims.push_back(input.batchDim);
  return dims;
}

/// What has the size of the first tensor, or of those that were named, along its first dimension is
/// taken to follow the batch. After these the other guesses, for when the model does not run. The
/// trial then finds out.
std::vector<ExampleMicroBatch> exampleMicroBatches(const Signature &signature, const Inputs &inputs,
                                                   const UnknownCut &cut) {
  if (cut.microBatches <= 1)
    return {{inputs, {}}};
  std::vector<ExampleMicroBatch> examples;
  std::vector<bool> given = cut.batchDimGiven;
  do {
    Signature guessed = signature;
    llvm::Expected<int64_t> batch = guessBatchDims(guessed, inputs, given);
    if (!batch || *batch < 1) { // the trial says it
      llvm::consumeError(batch.takeError());
      break;
    }
    if (*batch < cut.microBatches && !examples.empty())
      continue;
    const int64_t samples = (*batch + cut.microBatches - 1) / cut.microBatches;
    examples.push_back(cutExample(inputs, dimsOf(guessed), samples));
    for (const BatchDims &dims : otherBatchDims(guessed, inputs, given, *batch))
      // One sample goes with everything, also where the guess is wrong.
      examples.push_back(cutExample(inputs, dims, std::max<int64_t>(2, samples)));
  } while (leaveOutGuess(given, signature, inputs));
  if (examples.empty())
    return {{inputs, {}}};
  return examples;
}

/// What the whole batch has shown not to follow it may have the size of a micro-batch by chance.
std::vector<bool> knownDims(const Signature &signature, const ExampleMicroBatch &example,
                            const UnknownCut &cut) {
  std::vector<bool> sure = cut.batchDimGiven;
  Signature guessed = signature;
  llvm::consumeError(guessBatchDims(guessed, example.inputs, cut.batchDimGiven).takeError());
  for (size_t i = 0; i < example.dims.size(); ++i)
    sure[i] = sure[i] || (!example.dims[i] && guessed.inputs[i].batchDim);
  return sure;
}

/// A model that does not run on a micro-batch may have been cut along the wrong dimension.
llvm::Error explainCut(llvm::Error error, const std::string &dims) {
  ErrorText text = describe(std::move(error));
  return makeError(text.code, text.message,
                   (text.help.empty() ? "" : text.help + "; ") +
                       "if the batch is not the first dimension everywhere: --batch-dim " + dims);
}

/// Why a batch that fails when it is cut must not be; empty: nothing is known against it.
std::string wholeBatch(const Signature &signature, const Inputs &inputs, const UnknownCut &cut,
                       LeafRunner run) {
  Signature guessed = signature;
  llvm::Expected<int64_t> batch = guessBatchDims(guessed, inputs, cut.batchDimGiven);
  if (!batch) {
    llvm::consumeError(batch.takeError());
    return "";
  }
  if (anyDimGiven(signature, cut.batchDimGiven))
    return "";
  std::string why = samplesInLists(guessed, inputs, cut.batchDimGiven, run);
  if (!why.empty() || *batch < 1)
    return why;
  if (llvm::Error error = run({ownCopies(inputs)}).takeError()) { // nor does it run as a whole
    llvm::consumeError(std::move(error));
    return "";
  }
  return samplesByNumber(guessed, inputs, kTrialSizes, run);
}

llvm::Error notCut(const std::string &why, const UnknownCut &cut) {
  return makeError(ExitCode::Usage,
                   fmt::format("micro-batches: expected 1, got {}: {}", cut.microBatches, why),
                   "pass --microbatches 1, or say with --batch-dim what is cut");
}

/// Why no example ran; `error`: what the first one said.
llvm::Error explain(llvm::Error error, const Signature &signature, const Inputs &inputs,
                    const ExampleMicroBatch &example, const UnknownCut &cut) {
  auto run = [&](std::vector<Inputs> inOrder) -> llvm::Expected<Inputs> {
    llvm::Expected<c10::IValue> value = cut.run(std::move(inOrder));
    if (!value)
      return value.takeError();
    return Inputs{std::move(*value)};
  };
  if (cut.microBatches > 1) // cut along what is no batch
    if (std::string whole = wholeBatch(signature, inputs, cut, run); !whole.empty()) {
      llvm::consumeError(std::move(error));
      return notCut(whole, cut);
    }
  error = withArguments(std::move(error), signature, example.inputs);
  // An input that was not cut fixes the batch as well as a constant of the model does.
  if (cut.microBatches > 1)
    if (std::string dims = suggestBatchDims(signature, inputs); !dims.empty())
      return explainCut(std::move(error), dims);
  return explainFixedBatch(std::move(error), signature, example.inputs, cut.batchDimGiven, run);
}

/// The trial of batch sizes. Lists that are of another length at another size, as one entry per
/// sample is, turn into leaves, and the trial starts again.
llvm::Error tryBatches(Signature &signature, const Inputs &example, const std::vector<bool> &given,
                       const UnknownCut &cut, std::string &whole) {
  const Signature untried = signature;
  Inputs others;
  auto leavesOf = [&](std::vector<Inputs> inOrder) -> llvm::Expected<Inputs> {
    llvm::Expected<c10::IValue> value = cut.run(std::move(inOrder));
    if (!value)
      return value.takeError();
    llvm::Expected<Inputs> leaves = flattenOutputs(signature, *value);
    if (!leaves)
      others.push_back(std::move(*value));
    return leaves;
  };
  llvm::Error error = batchTrial(signature, example, given, leavesOf, &whole);
  if (others.empty())
    return error;
  llvm::consumeError(std::move(error));
  signature = untried;
  for (const c10::IValue &other : others)
    agreeWithResult(signature, other);
  whole.clear();
  return tryBatches(signature, example, given, cut, whole);
}

/// Where the example was cut along what does not follow the batch: what is known of it now.
std::optional<UnknownCut> betterCut(const Signature &learnt, const ExampleMicroBatch &example,
                                    const UnknownCut &cut) {
  UnknownCut better = cut;
  bool any = false;
  for (size_t i = 0; i < example.dims.size(); ++i)
    if (example.dims[i] && !learnt.inputs[i].batchDim && !better.batchDimGiven[i]) {
      better.batchDimGiven[i] = true;
      any = true;
    }
  return any ? std::optional(better) : std::nullopt;
}

} // namespace

llvm::Error learnSignature(Signature &signature, const Inputs &inputs, const UnknownCut &cut) {
  const std::vector<ExampleMicroBatch> examples = exampleMicroBatches(signature, inputs, cut);
  const ExampleMicroBatch *example = &examples.front();
  llvm::Expected<c10::IValue> result = cut.run({example->inputs});
  for (size_t k = 1; k < examples.size() && !result; ++k) {
    llvm::Expected<c10::IValue> ran = cut.run({examples[k].inputs});
    if (!ran) {
      llvm::consumeError(ran.takeError());
      continue;
    }
    llvm::consumeError(result.takeError());
    result = std::move(ran);
    example = &examples[k];
  }
  if (!result)
    return explain(result.takeError(), signature, inputs, *example, cut);
  const Signature unknown = signature;
  describeResult(signature, *result);
  std::string whole;
  if (llvm::Error error =
          tryBatches(signature, example->inputs, knownDims(signature, *example, cut), cut, whole))
    return error;
  if (!whole.empty() && cut.microBatches > 1)
    return notCut(whole, cut);
  std::optional<UnknownCut> better = betterCut(signature, *example, cut);
  if (!better)
    return llvm::Error::success();
  signature = unknown;
  return learnSignature(signature, inputs, *better);
}

} // namespace pipec
