#include "compiler/ExampleRuns.h"

#include "ir/batch/CutCandidates.h"
#include "ir/batch/FixedBatch.h"
#include "ir/InferenceSettings.h"
#include "ir/NodeInfo.h"
#include "ir/batch/SizeLinks.h"
#include "ir/batch/SizeTrial.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "ir/artifact/SerialRunner.h"
#include "ir/plan/OutputPath.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <ATen/Context.h>

namespace pipec {

namespace {

constexpr uint64_t kSeed = 0x9e3779b9;

/// The results of all calls on one fresh copy.
llvm::Expected<std::vector<c10::IValue>> runCopy(const std::string &path, const SourceMode &mode,
                                                 const Signature &signature,
                                                 std::vector<std::vector<c10::IValue>> calls) {
  // One thread is fast enough for an example, and the same on every machine.
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

/// A model that its constants hold to one batch size does not show how results become one; that of
/// a run without micro-batches need not.
bool mayTryOtherSizes(const Model &model) {
  const bool isCut = llvm::any_of(
      model.signature.inputs, [](const InputSpec &input) { return input.batchDim.has_value(); });
  return (model.signature.batchSymbolic || !isCut) && !holdsAny(model, trustsSizes);
}

/// The experiments as the stages repeat them. Errors: Other for a result of another tree.
llvm::Expected<std::vector<ExampleRun>> runsOf(const CutTrial &trial, const Signature &signature) {
  std::vector<ExampleRun> runs;
  for (const Experiment *experiment : trial.experiments()) {
    ExampleRun run{false, trial.samplesOf(*experiment), experiment->calls, {}};
    for (const c10::IValue &result : experiment->results) {
      llvm::Expected<std::vector<c10::IValue>> leaves = flattenOutputs(signature, result);
      if (!leaves)
        return leaves.takeError();
      run.leaves.push_back(std::move(*leaves));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

bool isCut(const Signature &signature) {
  return llvm::any_of(signature.inputs, [](const InputSpec &input) { return input.batchDim; });
}

/// Attributes that micro-batches write one after the other.
void noteState(Model &model) {
  std::vector<std::string> names;
  for (const Attribute &attribute : model.attributes)
    if (attribute.written)
      names.push_back(attribute.name);
  if (!names.empty() && isCut(model.signature))
    model.notes.push_back(fmt::format(
        "the model writes state ({}): every micro-batch writes it, in order, where the whole batch "
        "writes it once",
        llvm::join(names, ", ")));
}

TensorSpec specOfValue(const c10::IValue &value) {
  return value.isTensor() ? specOf(value.toTensor()) : TensorSpec();
}

/// An example of other sizes: what differs varies.
llvm::Error addExample(Signature &signature, const Values &example, ModelRunner run,
                       DecidesAlike decidesAlike, std::vector<ExampleRun> &runs) {
  llvm::Expected<std::vector<c10::IValue>> results = run({ownCopies(example)});
  if (!results)
    return withArguments(results.takeError(), signature, example);
  llvm::Expected<Values> leaves = flattenOutputs(signature, results->front());
  if (!leaves)
    return leaves.takeError();
  if (!decidesAlike(example))
    return makeError(ExitCode::Usage,
                     "the model computes it by other operators than the first example, as dtypes, "
                     "numbers of dimensions or memory layouts differ",
                     "compile an artifact for each of them");
  int64_t samples = 0;
  if (isCut(signature)) {
    llvm::Expected<int64_t> size = batchSize(signature, example);
    if (!size)
      return size.takeError();
    samples = *size;
    if (!signature.batchSymbolic && samples != signature.batchSize)
      return failf(ExitCode::Usage, "expected {} samples as the first example has, which the model's "
                   "constants fix, got {}", signature.batchSize, samples);
  }
  for (size_t i = 0; i < example.size(); ++i)
    widen(signature.inputs[i].tensor, specOfValue(example[i]), samples);
  for (size_t l = 0; l < leaves->size(); ++l)
    widen(signature.leaves[l].tensor, specOfValue((*leaves)[l]), samples);
  runs.push_back({true, {samples}, {ownCopies(example)}, {std::move(*leaves)}});
  return llvm::Error::success();
}

} // namespace

llvm::Expected<ExampleStudy> runSource(const std::string &path, const SourceMode &mode,
                                       Model &model, const std::vector<Values> &examples,
                                       const ExampleChoices &choices, DecidesAlike decidesAlike) {
  const Values &inputs = examples.front();
  auto run =
      [&](std::vector<std::vector<c10::IValue>> calls) -> llvm::Expected<std::vector<c10::IValue>> {
    llvm::Expected<std::vector<c10::IValue>> results =
        runCopy(path, mode, model.signature, std::move(calls));
    if (!results)
      return results.takeError();
    for (const c10::IValue &result : *results)
      if (llvm::Error error = flattenOutputs(model.signature, result).takeError())
        return std::move(error);
    return results;
  };
  DiscoveryOptions options;
  options.batchDimGiven = choices.batchDimGiven;
  options.merges = choices.merges;
  options.drawsRandom = [draws = holdsAny(model, mayDraw)] { return draws; };
  options.writesState =
      llvm::any_of(model.attributes, [](const Attribute &one) { return one.written; });
  llvm::Expected<BatchDiscovery> found = discoverBatch(model.signature, inputs, options, run);
  if (!found)
    return found.takeError();
  llvm::append_range(model.notes, found->notes);
  noteState(model);
  llvm::Expected<std::vector<ExampleRun>> runs = runsOf(found->trial, model.signature);
  if (!runs)
    return runs.takeError();
  for (size_t k = 1; k < examples.size(); ++k)
    if (llvm::Error error = addExample(model.signature, examples[k], run, decidesAlike, *runs))
      return withContext(std::move(error), fmt::format("example {}", k + 1));
  std::vector<SizeRun> others;
  if (mayTryOtherSizes(model))
    others = sizeTrial(model.signature, inputs, holdsAny(model, trustsLastSize), run, decidesAlike);
  const int64_t samples = model.signature.batchSymbolic ? kVariedSamples : model.signature.batchSize;
  for (SizeRun &other : others)
    runs->push_back({true, {samples}, {std::move(other.inputs)}, {std::move(other.leaves)}});
  return ExampleStudy{std::move(*runs), std::move(found->results),
                      examples.size() > 1 ? sizeLinks(model.signature, examples) : ""};
}

llvm::Error explainExample(llvm::Error error, const std::string &path, const SourceMode &mode,
                           const Signature &signature, const std::vector<c10::IValue> &inputs,
                           const std::vector<bool> &batchDimGiven) {
  auto run = [&](std::vector<std::vector<c10::IValue>> calls) {
    return runCopy(path, mode, signature, std::move(calls));
  };
  return explainFixedBatch(std::move(error), signature, inputs, batchDimGiven, run);
}

llvm::Error blameNormalForm(llvm::Error error, const std::string &path, const SourceMode &mode,
                            const Signature &signature, const std::vector<c10::IValue> &inputs) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage) {
    llvm::Error ofSource = runCopy(path, mode, signature, {ownCopies(inputs)}).takeError();
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

static llvm::Error compareLeaves(const Signature &signature, const ExampleRun &source, size_t call,
                                 const std::vector<c10::IValue> &leaves) {
  for (size_t l = 0; l < leaves.size(); ++l) {
    const Comparison comparison = compare(source.leaves[call][l], leaves[l], 0.0, 0.0);
    if (!comparison.equal)
      return failf(ExitCode::Internal,
                   "the stages do not compute what the model computes: result {} at batch {}{}: {}",
                   outputPath(signature, l), source.batch[call],
                   source.otherSizes ? " and other sizes" : "", comparison.firstDifference);
  }
  return llvm::Error::success();
}

llvm::Error runStages(const std::string &directory, Plan &plan,
                      const std::vector<ExampleRun> &runs) {
  InferenceSettings settings(/*intraOpThreads=*/1); // as the source ran
  std::vector<std::vector<std::pair<int64_t, TensorSpec>>> seen(plan.channels.size()),
      others = seen;
  int64_t example = plan.signature.batchSize;
  size_t callsAtExample = 0, callsAtOthers = 0;
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
    for (size_t call = 0; call < done.calls.size(); ++call) {
      at::manual_seed(kSeed);
      llvm::Expected<std::vector<c10::IValue>> values = runner->run(ownCopies(done.calls[call]));
      if (!values) {
        // The source ran on the same inputs: this is our fault, not theirs.
        ErrorText text = describe(values.takeError());
        return makeError(text.code == ExitCode::OutOfMemory ? text.code : ExitCode::Internal,
                         "running the stages on the example inputs: " + text.message, text.help);
      }
      if (llvm::Error error = compareLeaves(plan.signature, done, call, *values))
        return error;
      ++(done.otherSizes ? callsAtOthers : callsAtExample);
      for (size_t c = 0; c < plan.channels.size(); ++c)
        if (plan.channels[c].kind == Channel::Kind::Activation && runner->sent(c).isTensor() &&
            runner->sent(c).toTensor().defined())
          (done.otherSizes ? others : seen)[c].emplace_back(done.batch[call],
                                                            specOf(runner->sent(c).toTensor()));
    }
  }
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    if (seen[c].empty() || seen[c].size() < callsAtExample || others[c].size() < callsAtOthers)
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
