#include "compiler/ExampleRuns.h"

#include "ir/BatchDimGuess.h"
#include "ir/FixedBatch.h"
#include "ir/InferenceSettings.h"
#include "ir/NodeInfo.h"
#include "ir/SizeTrial.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "ir/artifact/SerialRunner.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <ATen/Context.h>

namespace pipec {

namespace {

constexpr uint64_t kSeed = 0x9e3779b9;

int64_t samplesOf(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  llvm::Expected<int64_t> size = batchSize(signature, inputs);
  if (size)
    return *size;
  llvm::consumeError(size.takeError());
  return 0;
}

llvm::Expected<c10::IValue> runOnce(const std::string &path, const SourceMode &mode,
                                    const Signature &signature,
                                    std::vector<std::vector<c10::IValue>> calls) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  return runFresh(path, signature.method, mode, std::move(calls), kSeed);
}

bool holdsAny(const Model &model, bool (*wanted)(const torch::jit::Node *)) {
  return llvm::any_of(topLevelOf(model).operators,
                      [&](torch::jit::Node *node) { return firstInside(node, wanted); });
}

bool mayDraw(const torch::jit::Node *node) {
  return drawsOf(const_cast<torch::jit::Node *>(node)) != Draws::Never;
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

llvm::Expected<std::vector<ExampleRun>> runSource(const std::string &path, const SourceMode &mode,
                                                  Model &model,
                                                  const std::vector<c10::IValue> &inputs,
                                                  const std::vector<bool> &batchDimGiven,
                                                  DecidesAlike decidesAlike) {
  std::vector<ExampleRun> runs;
  auto run =
      [&](std::vector<std::vector<c10::IValue>> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    InferenceSettings settings(
        /*intraOpThreads=*/1); // fast enough for an example, and the same on every machine
    std::vector<std::vector<c10::IValue>> kept;
    for (const std::vector<c10::IValue> &call : calls)
      kept.push_back(ownCopies(call));
    llvm::Expected<c10::IValue> result =
        runFresh(path, model.signature.method, mode, std::move(calls), kSeed);
    if (!result)
      return withArguments(result.takeError(), model.signature, kept.back());
    llvm::Expected<std::vector<c10::IValue>> leaves = flattenOutputs(model.signature, *result);
    if (!leaves)
      return leaves.takeError();
    runs.push_back({0, false, std::move(kept), ownCopies(*leaves)});
    return leaves;
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
    runs.push_back({0, true, {std::move(other.inputs)}, std::move(other.leaves)});
  for (ExampleRun &done : runs)
    done.batch = samplesOf(model.signature, done.calls.back());
  return runs;
}

llvm::Error explainExample(llvm::Error error, const std::string &path, const SourceMode &mode,
                           const Signature &signature, const std::vector<c10::IValue> &inputs,
                           const std::vector<bool> &batchDimGiven) {
  auto run =
      [&](std::vector<std::vector<c10::IValue>> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    llvm::Expected<c10::IValue> result = runOnce(path, mode, signature, std::move(calls));
    if (!result)
      return result.takeError();
    return std::vector<c10::IValue>{std::move(*result)};
  };
  return explainFixedBatch(std::move(error), signature, inputs, batchDimGiven, run);
}

llvm::Error blameNormalForm(llvm::Error error, const std::string &path, const SourceMode &mode,
                            const Signature &signature, const std::vector<c10::IValue> &inputs) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage) {
    llvm::Error ofSource = runOnce(path, mode, signature, {ownCopies(inputs)}).takeError();
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

llvm::Error runStages(const std::string &directory, Plan &plan,
                      const std::vector<ExampleRun> &runs) {
  InferenceSettings settings(/*intraOpThreads=*/1); // as the source ran
  std::vector<std::vector<std::pair<int64_t, TensorSpec>>> seen(plan.channels.size()),
      others = seen;
  int64_t example = plan.signature.batchSize;
  // Reading a stage takes longer than running it once. What keeps nothing is read once.
  const bool keepsState = llvm::any_of(
      plan.stages, [](const StagePlan &stage) { return !stage.effects.stateWrites.empty(); });
  std::optional<SerialRunner> runner;
  for (const ExampleRun &done : runs) {
    if (!runner || keepsState) {
      llvm::Expected<SerialRunner> loaded = SerialRunner::load(directory, plan);
      if (!loaded)
        return loaded.takeError();
      runner = std::move(*loaded);
    }
    std::vector<c10::IValue> leaves;
    for (const std::vector<c10::IValue> &call : done.calls) {
      at::manual_seed(kSeed);
      llvm::Expected<std::vector<c10::IValue>> values = runner->run(ownCopies(call));
      if (!values) {
        // The source ran on the same inputs: this is our fault, not theirs.
        ErrorText text = describe(values.takeError());
        return makeError(text.code == ExitCode::OutOfMemory ? text.code : ExitCode::Internal,
                         "running the stages on the example inputs: " + text.message, text.help);
      }
      leaves = std::move(*values);
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      Comparison comparison = compare(done.leaves[i], leaves[i], 0.0, 0.0);
      if (!comparison.equal)
        return makeError(
            ExitCode::Internal,
            fmt::format(
                "the stages do not compute what the model computes: output {} at batch {}{}: {}", i,
                done.batch, done.otherSizes ? " and other sizes" : "", comparison.firstDifference));
    }
    for (size_t c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].kind == Channel::Kind::Activation && runner->sent(c).isTensor() &&
          runner->sent(c).toTensor().defined())
        (done.otherSizes ? others : seen)[c].emplace_back(done.batch,
                                                          specOf(runner->sent(c).toTensor()));
  }
  const size_t atExample =
      llvm::count_if(runs, [](const ExampleRun &done) { return !done.otherSizes; });
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    if (seen[c].empty() || seen[c].size() < atExample || others[c].size() < runs.size() - atExample)
      continue; // no tensor in some run: the others do not show how its sizes follow the batch
    plan.channels[c].tensor = fitSpec(seen[c]);
    if (!plan.channels[c].tensor.known)
      continue; // dtype or rank hang on the sizes
    for (const auto &[batch, spec] : seen[c])
      if (batch == example || plan.channels[c].tensor.bytes == 0)
        plan.channels[c].tensor.bytes = spec.bytes;
    for (const auto &[batch, spec] : others[c])
      widen(plan.channels[c].tensor, spec, batch);
  }
  return llvm::Error::success();
}

} // namespace pipec
