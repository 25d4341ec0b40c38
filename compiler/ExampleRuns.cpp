#include "compiler/ExampleRuns.h"

#include "ir/BatchDimGuess.h"
#include "ir/FixedBatch.h"
#include "ir/NodeInfo.h"
#include "ir/SizeTrial.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

namespace pipec {

namespace {

int64_t samplesOf(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  llvm::Expected<int64_t> size = batchSize(signature, inputs);
  if (size)
    return *size;
  llvm::consumeError(size.takeError());
  return 0;
}

bool holdsAny(const Model &model, bool (*wanted)(const torch::jit::Node *)) {
  return llvm::any_of(topLevelOf(model).operators,
                      [&](torch::jit::Node *node) { return firstInside(node, wanted); });
}

bool mayDraw(const torch::jit::Node *node) {
  return drawsOf(const_cast<torch::jit::Node *>(node)) != Draws::Never;
}

bool mayUseGenerators(const torch::jit::Node *node) {
  return mayUseGenerator(const_cast<torch::jit::Node *>(node));
}

/// Nine calls on batches of 2 to 5 samples, the example among them, then some at other sizes.
void expectRuns(SourceRunner &source, llvm::ArrayRef<c10::IValue> inputs) {
  constexpr size_t kCalls = 13;
  constexpr int64_t kSamples = 36;
  int64_t samples = 1;
  for (const c10::IValue &input : inputs)
    if (samples == 1 && input.isTensor() && input.toTensor().defined() &&
        input.toTensor().dim() > 0)
      samples = std::max<int64_t>(1, input.toTensor().size(0));
  source.expect(kCalls, countElements(inputs) * (samples + kSamples) / samples);
}

std::vector<std::vector<int64_t>> sizesOf(const c10::IValue &value) {
  std::vector<std::vector<int64_t>> sizes;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    sizes.push_back(tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>());
  });
  return sizes;
}

/// Whether a run cut what is given whole, as those of a guess that was given up.
bool cutsOthers(const ExampleRun &run, const Signature &signature,
                llvm::ArrayRef<c10::IValue> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!signature.inputs[i].batchDim && sizesOf(run.calls.back()[i]) != sizesOf(inputs[i]))
      return true;
  return false;
}

/// A model that its constants hold to one batch size does not show how results become one; that of
/// a run without micro-batches need not.
bool mayTryOtherSizes(const Model &model) {
  const bool isCut = llvm::any_of(
      model.signature.inputs, [](const InputSpec &input) { return input.batchDim.has_value(); });
  return (model.signature.batchSymbolic || !isCut) && !holdsAny(model, trustsSizes);
}

} // namespace

llvm::Expected<std::vector<ExampleRun>>
runSource(const std::string &path, const SourceMode &mode, Model &model,
          const std::vector<c10::IValue> &inputs, const std::vector<bool> &batchDimGiven,
          DecidesAlike decidesAlike, const ProgressCallback &progress) {
  std::vector<ExampleRun> runs;
  SourceRunner source(path, model.signature.method, mode, holdsAny(model, mayUseGenerators),
                      ModelOutput::OfFirstRun, progress);
  expectRuns(source, inputs);
  auto run =
      [&](std::vector<std::vector<c10::IValue>> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    std::vector<std::vector<c10::IValue>> kept;
    for (const std::vector<c10::IValue> &call : calls)
      kept.push_back(ownCopies(call));
    llvm::Expected<std::vector<c10::IValue>> results = source.run(std::move(calls));
    if (!results)
      return withArguments(results.takeError(), model.signature, kept.back());
    std::vector<std::vector<c10::IValue>> leaves;
    for (const c10::IValue &result : *results) {
      llvm::Expected<std::vector<c10::IValue>> flat = flattenOutputs(model.signature, result);
      if (!flat)
        return flat.takeError();
      leaves.push_back(std::move(*flat));
    }
    runs.push_back({false, {}, std::move(kept), leaves});
    return ownCopies(leaves.back());
  };
  std::string whole, mixes;
  if (llvm::Error error = batchTrial(model.signature, inputs, batchDimGiven, run, &whole, &mixes))
    return std::move(error);
  if (!whole.empty())
    model.notes.push_back("the batch is not cut into micro-batches: " + whole +
                          "; --batch-dim NAME=K cuts all the same");
  if (!mixes.empty() && !holdsAny(model, mayDraw)) {
    const std::string dims = suggestBatchDims(model.signature, inputs);
    model.notes.push_back("what a sample gives depends on the others of its micro-batch (" + mixes +
                          "): results are those of the model run on each micro-batch, not on the "
                          "whole batch at once" +
                          (dims.empty() ? "" : "; if these are no samples: --batch-dim " + dims));
  }
  if (whole.empty())
    llvm::erase_if(
        runs, [&](const ExampleRun &done) { return cutsOthers(done, model.signature, inputs); });
  const size_t atExample = runs.size();
  std::vector<SizeRun> others;
  if (mayTryOtherSizes(model))
    others = sizeTrial(model.signature, inputs, holdsAny(model, trustsLastSize), run, decidesAlike);
  runs.resize(atExample); // those that only showed which sizes vary
  for (SizeRun &other : others)
    runs.push_back({true, {}, {std::move(other.inputs)}, {std::move(other.leaves)}});
  for (ExampleRun &done : runs)
    for (const std::vector<c10::IValue> &call : done.calls)
      done.batch.push_back(samplesOf(model.signature, call));
  return runs;
}

llvm::Error explainExample(llvm::Error error, const std::string &path, const SourceMode &mode,
                           const Signature &signature, const std::vector<c10::IValue> &inputs,
                           const std::vector<bool> &batchDimGiven) {
  SourceRunner source(path, signature.method, mode, /*draws=*/true, ModelOutput::None);
  auto run =
      [&](std::vector<std::vector<c10::IValue>> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    return source.run(std::move(calls));
  };
  return explainFixedBatch(std::move(error), signature, inputs, batchDimGiven, run);
}

llvm::Error blameNormalForm(llvm::Error error, const std::string &path, const SourceMode &mode,
                            const Signature &signature, const std::vector<c10::IValue> &inputs) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage) {
    SourceRunner source(path, signature.method, mode, /*draws=*/true, ModelOutput::OfFirstRun);
    llvm::Error ofSource = source.run({ownCopies(inputs)}).takeError();
    const bool sourceRuns = !ofSource;
    llvm::consumeError(std::move(ofSource));
    if (sourceRuns)
      return makeError(ExitCode::Internal,
                       "the model runs on the example inputs, its normal form does not: " +
                           text.message,
                       "compile without --inputs, and report this with the reproducer");
  }
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
