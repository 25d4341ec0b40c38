#include "compiler/ExampleRuns.h"

#include "compiler/samples/SampleNotes.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/DiscoveryNotes.h"
#include "ir/batch/discovery/SizeTrust.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/batch/discovery/UncutArgument.h"
#include "ir/graph/Dropout.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/ArgumentText.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

bool holdsAny(const Model &model, llvm::function_ref<bool(torch::jit::Node *)> wanted) {
  return llvm::any_of(topLevelOf(model).operators,
                      [&](torch::jit::Node *node) { return firstInside(node, wanted); });
}

bool mayDraw(torch::jit::Node *node) { return drawsOf(node) != Draws::Never; }

/// Seven calls on batches of 2 to 5 samples, beside the example, then two at other sizes, twice.
void expectRuns(SourceRunner &source, llvm::ArrayRef<c10::IValue> inputs) {
  constexpr size_t kCalls = 11;
  constexpr int64_t kSamples = 28;
  int64_t samples = 1;
  for (const c10::IValue &input : inputs)
    if (samples == 1 && input.isTensor() && input.toTensor().defined() &&
        input.toTensor().dim() > 0)
      samples = std::max<int64_t>(1, input.toTensor().size(0));
  source.expect(kCalls, countElements(inputs) * (samples + kSamples) / samples);
}

/// A model with a fixed batch size does not show how results are merged. A run without
/// micro-batches does not need to know.
bool mayTryOtherSizes(const Model &model) {
  return (model.signature.batchSymbolic || !isCut(model.signature)) &&
         !holdsAny(model, mayRunForEverAtOtherSizes);
}

/// Without a second example, sizes beside the batch that could vary stay as in the first.
void noteUntriedSizes(const Model &model, llvm::ArrayRef<c10::IValue> inputs,
                      PassContext &context) {
  torch::jit::Node *reason = nullptr;
  for (torch::jit::Node *node : topLevelOf(model).operators)
    if (!reason)
      reason = firstInside(node, mayRunForEverAtOtherSizes);
  if (reason && mayVary(model.signature, inputs, holdsAny(model, trustsLastSize)))
    context.notes.push_back(fmt::format(
        "sizes beside the batch stay as in --inputs: {} may run forever or crash at sizes that the "
        "author did not expect, so other sizes are not tried; a second --inputs of another size "
        "lets those vary that differ",
        describeNode(reason)));
}

/// The experiments in the form that the stages repeat. Errors: Other for a result with another
/// tree.
llvm::Expected<std::vector<ExampleRun>> runsOf(const CutTrial &trial, const Signature &signature) {
  std::vector<ExampleRun> runs;
  for (const auto &[experiment, samples] : trial.experiments()) {
    std::vector<Values> leaves = TRY(leavesOf(signature, *experiment));
    runs.push_back({false, samples, experiment->calls, std::move(leaves)});
  }
  return runs;
}

/// Attributes that micro-batches write one after the other.
void noteState(const Model &model, PassContext &context) {
  std::vector<std::string> names;
  for (const Attribute &attribute : model.attributes)
    if (attribute.written)
      names.push_back(attribute.name);
  if (!names.empty() && isCut(model.signature))
    context.notes.push_back(noteOnState(names));
}

/// The model may need a multiple of some number, which is not an option of an artifact.
std::string whyFixed(const CutTrial &trial) {
  if (trial.runs())
    return "";
  const std::string doubled =
      trial.runsDoubled
          ? fmt::format("; it runs with {0} samples: an example of {0} gives micro-batches of {0}",
                        2 * trial.candidate.batch)
          : "";
  return fmt::format("a test run with another number of samples failed ({}){}", trial.refusal,
                     doubled);
}

/// Adds an example of other sizes: sizes that differ may vary.
llvm::Error addExample(Signature &signature, const Values &example, ModelRunner run,
                       DecidesAlike decidesAlike, std::vector<ExampleRun> &runs) {
  llvm::Expected<std::vector<c10::IValue>> results = run({ownCopies(example)});
  if (!results)
    return withArguments(results.takeError(), signature, example);
  Values leaves = TRY(flattenOutputs(signature, results->front()));
  if (!decidesAlike(example))
    return makeError(ExitCode::Usage,
                     "the model runs other operators on it than on the first example, because "
                     "dtypes, numbers of dimensions or memory layouts differ",
                     "compile one artifact per example");
  int64_t samples = 0;
  if (isCut(signature)) {
    int64_t size = TRY(batchSize(signature, example));
    samples = size;
    if (!signature.batchSymbolic && samples != signature.batchSize)
      return failf(ExitCode::Usage,
                   "expected {} samples as in the first example ({} fix the batch), got {}",
                   signature.batchSize, whatFixesBatch(signature, example), samples);
  }
  SizeRun other{ownCopies(example), std::move(leaves)};
  widen(signature, other, samples);
  runs.push_back({true, {samples}, {std::move(other.inputs)}, {std::move(other.leaves)}});
  return llvm::Error::success();
}

/// Only the first example shows whether a tensor has a batch.
void warnOnLaterArguments(const Signature &signature, const std::vector<Values> &examples,
                          PassContext &context) {
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    for (size_t k = 1; k < examples.size() && examples.front()[i].isNone(); ++k)
      if (examples[k][i].isTensor() && examples[k][i].toTensor().dim() > 0) {
        const std::string &name = signature.inputs[i].name;
        context.warnings.push_back(fmt::format(
            "{0} is None in the first example, which shows what is cut, so the {0} of example {1} "
            "does not count: micro-batches take None only; pass --inputs of example {1} first",
            name, k + 1));
        break;
      }
}

} // namespace

llvm::Expected<ExampleStudy> runSource(const std::string &path, const SourceMode &mode,
                                       Model &model, PassContext &context,
                                       const std::vector<Values> &examples,
                                       const ExampleChoices &choices, DecidesAlike decidesAlike,
                                       const ProgressCallback &progress) {
  const Values &inputs = examples.front();
  const bool writesState =
      !model.stateOutputs.empty() ||
      llvm::any_of(model.attributes, [](const Attribute &one) { return one.written; });
  SourceRunner source(path, model.signature.method, mode, holdsAny(model, mayUseGenerator),
                      ModelOutput::OfFirstRun, progress, writesState);
  expectRuns(source, inputs);
  auto runAll = [&](std::vector<std::vector<Values>> experiments, const RunRules &rules) {
    std::vector<llvm::Expected<Values>> all = source.runAll(std::move(experiments), rules);
    for (llvm::Expected<Values> &results : all)
      for (size_t k = 0; results && k < results->size(); ++k)
        if (llvm::Error error = flattenOutputs(model.signature, (*results)[k]).takeError())
          results = std::move(error);
    return all;
  };
  auto run = [&](std::vector<Values> calls) { return runOne(runAll, std::move(calls)); };
  DiscoveryOptions options;
  options.batchDimGiven = choices.batchDimGiven;
  options.merges = choices.merges;
  options.drawsRandom = [draws = holdsAny(model, mayDraw)] { return draws; };
  options.valueDependentDraw = [draw = valueDependentDrawIn(model.graph->block())] { return draw; };
  options.listsValues = listsValuesIn(model.graph->block());
  options.trains = mode.training == true;
  options.trustsSizes = holdsAny(model, mayRunForEverAtOtherSizes);
  options.writesState = [writesState] { return writesState; };
  options.norms = choices.norms;
  const bool onlyDropout = options.trains && !holdsAny(model, drawsOtherThanDropout);
  auto runWithoutDropout = [&](std::vector<std::vector<Values>> experiments,
                               const RunRules &rules) {
    SourceRunner calm(path, model.signature.method, mode, /*draws=*/false, ModelOutput::None,
                      /*progress=*/{}, writesState);
    calm.turnOffDropout();
    return calm.runAll(std::move(experiments), rules);
  };
  if (onlyDropout)
    options.withoutDropout = runWithoutDropout;
  BatchDiscovery found = TRY(discoverBatch(model.signature, inputs, options, runAll));
  llvm::append_range(context.notes, found.notes);
  llvm::append_range(context.warnings, found.warnings);
  noteSampleRelations(model, found, context, runAll, options.drawsRandom(), options.norms);
  noteState(model, context);
  std::vector<ExampleRun> runs = TRY(runsOf(found.trial, model.signature));
  for (size_t k = 1; k < examples.size(); ++k)
    if (llvm::Error error = addExample(model.signature, examples[k], run, decidesAlike, runs))
      return withContext(std::move(error), fmt::format("example {}", k + 1));
  std::string uncut;
  if (isCut(model.signature) && found.suggestion.empty() && !options.trustsSizes)
    uncut = uncutArgument(model.signature, found.trial, run);
  warnOnLaterArguments(model.signature, examples, context);
  std::vector<SizeRun> others;
  if (mayTryOtherSizes(model))
    others =
        sizeTrial(model.signature, inputs, holdsAny(model, trustsLastSize), runAll, decidesAlike);
  else if (examples.size() == 1)
    noteUntriedSizes(model, inputs, context);
  const int64_t samples =
      model.signature.batchSymbolic ? kSizeTrialSamples : model.signature.batchSize;
  for (SizeRun &other : others)
    runs.push_back({true, {samples}, {std::move(other.inputs)}, {std::move(other.leaves)}});
  std::vector<Values> varied = {inputs};
  for (const ExampleRun &one : runs)
    if (one.otherSizes)
      varied.push_back(one.calls.front());
  std::vector<PartSizes> parts = partSizes(model.signature, varied);
  return ExampleStudy{std::move(runs),
                      std::move(found.results),
                      examples.size() > 1 ? sizeLinks(model.signature, examples) : "",
                      std::move(parts),
                      whyFixed(found.trial),
                      std::move(found.shown),
                      std::move(found.suggestion),
                      std::move(options.norms),
                      std::move(uncut)};
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
                       "the model runs on the example inputs, but its normalised form does not: " +
                           text.message,
                       "compile without --inputs, and report this with the reproducer");
  }
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
