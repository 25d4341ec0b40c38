#include "compiler/FrontEnd.h"

#include "compiler/DecidedTypes.h"
#include "compiler/ExampleTypes.h"
#include "compiler/Pipelines.h"
#include "compiler/TrainingMode.h"
#include "compiler/WrongInputs.h"
#include "compiler/emit/RoundTrip.h"
#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/OwnGraph.h"
#include "ir/Refusals.h"
#include "ir/batch/CutCandidates.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/GivenMerges.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/text/CanonicalText.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/BindArguments.h"
#include "ir/values/DescribedArguments.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

/// Keys of dicts do not count. A named tuple holds more than its tensors: its type.
bool holdsOnlyTensors(const c10::Type &type) {
  auto isOfTensors = [](const c10::TypePtr &part) { return holdsOnlyTensors(*part); };
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return true;
  case c10::TypeKind::ListType:
  case c10::TypeKind::OptionalType:
    return isOfTensors(type.containedType(0));
  case c10::TypeKind::DictType:
    return isOfTensors(type.containedType(1));
  case c10::TypeKind::TupleType:
    return !type.expectRef<c10::TupleType>().name() && type.containedTypeSize() > 0 &&
           llvm::all_of(type.containedTypes(), isOfTensors);
  default:
    return false;
  }
}

/// Without an example no size is known: tensors are split along dimension 0, and outputs are
/// concatenated along it.
void assumeBatchFirst(Model &model, const std::vector<bool> &given) {
  Signature &signature = model.signature;
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    if (!given[i] && holdsTensors(*model.graph->inputs()[i]->type()))
      signature.inputs[i].batchDim = 0;
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    signature.leaves[l].merge = holdsOnlyTensors(*model.graph->outputs()[l]->type())
                                    ? MergeRule{MergeRule::Kind::Concat, 0}
                                    : MergeRule{MergeRule::Kind::List, 0};
}

/// Notes, for a model with a fixed batch size, why it is fixed and how to free it.
void noteFixedBatch(const Signature &signature, PassContext &context,
                    const std::vector<bool> &given, const ExampleStudy &study) {
  const std::string &why = study.fixedBatch;
  if (signature.batchSymbolic || signature.batchSize == 0 || !isCut(signature))
    return;
  if (!study.batchDims.empty())
    context.notes.push_back(
        fmt::format("the model accepts only batches of {}; with --batch-dim {}, test runs with "
                    "other numbers of samples succeed",
                    counted(static_cast<size_t>(signature.batchSize), "sample"), study.batchDims));
  else if (!study.uncut.empty())
    context.notes.push_back(fmt::format("only batches of {} run: {}",
                                        counted(static_cast<size_t>(signature.batchSize), "sample"),
                                        study.uncut));
  else
    context.notes.push_back(
        fmt::format("the model accepts only batches of {}{}: {}{}",
                    counted(static_cast<size_t>(signature.batchSize), "sample"),
                    anyDimGiven(signature, given) ? ", or --batch-dim does not name its batch" : "",
                    why.empty() ? "" : why + "; ", howToFreeBatch()));
}

llvm::Error refuseInnerGradients(const Model &model) {
  const std::string found = innerGradientIn(model.graph->block());
  return found.empty() ? llvm::Error::success() : refuseWith(Refusal::InnerGradient, found);
}

bool isAttribute(const torch::jit::Value *value, const Model &model) {
  return value->node() == model.graph->param_node() && value->offset() >= model.argumentCount();
}

/// Whether the operator reads or changes what autograd keeps at a tensor.
bool touchesGraphState(torch::jit::Node *node, const Model &model) {
  if (node->kind() == c10::Symbol::aten("requires_grad_"))
    return isAttribute(node->input(0), model);
  return node->kind() == c10::prim::grad || node->kind() == c10::Symbol::aten("is_leaf") ||
         node->kind() == c10::Symbol::aten("retain_grad") ||
         node->kind() == c10::Symbol::aten("retains_grad");
}

llvm::Error refuseGraphState(const Model &model) {
  std::string found;
  if (model.mode == Mode::Train)
    anyNodeInside(model.graph->block(), [&](torch::jit::Node *node) {
      if (touchesGraphState(node, model))
        found = describeNode(node);
      return !found.empty();
    });
  return found.empty() ? llvm::Error::success() : refuseWith(Refusal::GraphState, found);
}

/// Brings the graph into the form of the files. Reading also folds: a result may become None.
llvm::Error writeAndRead(Model &model) {
  TRY(roundTrip(model).takeError());
  decideAbsentResults(model);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<bool> FrontEnd::runPasses(const PassPipeline &pipeline, AnyModel &model,
                                         PassContext &context, bool quietly) {
  PassManagerOptions options;
  options.checkHonesty = false; // pipe-opt and the tests check it; texts of whole models take long
  if (!quietly) {               // a quiet run takes the product's passes, never those of a test
    options.registry = registry_;
    options.printAfter = options_.printAfter;
  }
  if (!quietly && !options_.dumpDir.empty())
    options.afterPass = [this](const PassRun &run) { return dumps_.write(run); };
  PassManager manager(options);
  manager.add(pipeline);
  llvm::Expected<bool> changed = manager.run(model, context);
  phases_.add(manager.times());
  return changed;
}

llvm::Expected<Model> FrontEnd::flatten(PassContext &context) {
  context.trains = options_.mode == Mode::Train;
  TRY(checkNames(options_));
  phases_.begin("reading the model");
  Model imported = TRY(importModel(path_, options_.method, sourceMode()));
  imported.mode = options_.mode;
  phases_.end("import");
  phases_.begin("normalising the model");
  AnyModel model = std::move(imported);
  TRY(runPasses(frontPipeline(options_), model, context).takeError());
  TRY(refuseInnerGradients(std::get<Model>(model)));
  TRY(refuseGraphState(std::get<Model>(model)));
  // Before anything runs, because inputs that a run writes must be copies.
  noteWrites(std::get<Model>(model));
  phases_.end("normalise");
  return std::get<Model>(std::move(model));
}

llvm::Expected<std::vector<c10::IValue>> FrontEnd::exampleInputs(const Model &model,
                                                                 const std::string &inputs) const {
  if (inputs.empty())
    return std::vector<c10::IValue>{};
  auto bind = [&](const Arguments &arguments) -> llvm::Expected<std::vector<c10::IValue>> {
    if (arguments.positional.size() > model.signature.inputs.size())
      return withContext(tooManyArguments(model, arguments, options_), inputs);
    auto values = bindArguments(model.signature, argumentTypes(model), arguments);
    if (values || options_.loss.empty())
      return values;
    return withTargets(values.takeError(), model.signature, path_, options_);
  };
  const Arguments arguments = TRY(argumentsFromOption(
      inputs, [&](const Arguments &shapes) { return bind(shapes).takeError(); }));
  return bind(arguments);
}

llvm::Expected<std::vector<Values>> FrontEnd::allExamples(const Model &model,
                                                          const Values &first) const {
  std::vector<Values> examples = {first};
  for (const std::string &inputs : options_.moreInputs) {
    llvm::Expected<Values> example = exampleInputs(model, inputs);
    if (!example)
      return withContext(example.takeError(), "--inputs " + inputs);
    examples.push_back(std::move(*example));
  }
  return examples;
}

/// Types show which branches are taken for every accepted input. Folding these brings operators to
/// the top level, whose types show more. If a plan has given the answers, nothing runs.
llvm::Error FrontEnd::simplifyWithTypes(Model &model, PassContext &context,
                                        const std::vector<c10::IValue> &inputs, bool quietly) {
  decideAbsent(model, context, inputs);
  for (int round = 0; round < kTypedRounds; ++round) {
    ++context.answers.round;
    if (!context.answers.given)
      if (llvm::Error error = inferTypes(model, ownCopies(inputs), runningFor(model)))
        return withArguments(std::move(error), model.signature, inputs);
    AnyModel any = std::move(model);
    llvm::Expected<bool> changed = runPasses(typedPipeline(), any, context, quietly);
    model = std::get<Model>(std::move(any));
    if (!changed)
      return changed.takeError();
    if (!*changed)
      break;
  }
  eraseTypes(model);
  decideAbsentResults(model);
  return llvm::Error::success();
}

/// If inputs of other sizes give the same graph with the same answers, no decision that the
/// example's types made depends on these sizes.
bool FrontEnd::decidesAlike(const Snapshot &flat, const Snapshot &simplified,
                            llvm::ArrayRef<c10::IValue> inputs) {
  const TypeDecisions &decisions = simplified.context.answers.decisions;
  if (simplified.model.obligations.empty() && decisions.empty())
    return true; // types decided nothing
  Model other = withOwnGraph(flat.model);
  PassContext context = flat.context;
  if (llvm::Error error = simplifyWithTypes(other, context, inputs.vec(), /*quietly=*/true)) {
    llvm::consumeError(std::move(error)); // only the sizes are refused
    return false;
  }
  return context.answers.decisions == decisions &&
         other.obligations == simplified.model.obligations &&
         canonicalLines(other) == canonicalLines(simplified.model);
}

SourceMode FrontEnd::sourceMode() const {
  SourceMode mode; // as lower-attributes folds the flags
  if (options_.trainingFlag != TrainingFlag::Saved)
    mode.training = options_.trainingFlag == TrainingFlag::True;
  mode.keepEval = options_.keepEval;
  mode.loss = options_.loss;
  mode.lossMethod = options_.method;
  return mode;
}

llvm::Error FrontEnd::explained(llvm::Error error, const Model &model,
                                const std::vector<c10::IValue> &inputs) const {
  Signature signature = model.signature;
  llvm::Expected<std::vector<bool>> given = applyBatchDims(signature, options_.batchDims);
  if (!given) {
    llvm::consumeError(given.takeError()); // the error to explain is the one to report
    return error;
  }
  return explainExample(std::move(error), path_, sourceMode(), signature, inputs, *given);
}

llvm::Expected<Model> FrontEnd::normalise(const NormaliseAgain &how) {
  PassContext context;
  context.answers = how.answers;
  Model model = TRY(flatten(context));
  if (how.withExample)
    TRY(simplifyWithTypes(model, context, {}));
  TRY(writeAndRead(model));
  return model;
}

llvm::Expected<ExampleStudy> FrontEnd::runExample(Model &model, PassContext &context,
                                                  const std::vector<c10::IValue> &inputs,
                                                  const std::string &norms,
                                                  DecidesAlike decidesAlike) {
  std::vector<bool> given = TRY(applyBatchDims(model.signature, options_.batchDims));
  if (options_.inputs.empty()) {
    assumeBatchFirst(model, given);
    context.notes.push_back(
        "without --inputs, merge rules are not tested: tensors are concatenated "
        "along dimension 0, other results become lists");
    TRY(giveMerges(model.signature, options_.merges));
    return ExampleStudy{
        {},
        std::vector<ResultCheck>(model.signature.leaves.size(),
                                 {ResultCheck::Equal::NotTried, "no example inputs"}),
        "",
        {},
        "",
        {},
        {},
        "",
        {}};
  }
  std::vector<Values> examples = TRY(allExamples(model, inputs));
  phases_.begin("running the source on the example");
  ExampleStudy study =
      TRY(runSource(path_, sourceMode(), model, context, examples, {given, options_.merges, norms},
                    decidesAlike, phases_.progress()));
  noteFixedBatch(model.signature, context, given, study);
  phases_.end("run the source on the example");
  return study;
}

llvm::Expected<Source> FrontEnd::study() {
  PassContext context;
  Model model = TRY(flatten(context));
  const TrainingModules inTraining = TRY(trainingModulesOf(source_, path_, model.signature.method));
  if (options_.mode == Mode::Infer)
    llvm::append_range(context.notes, inTraining.notes("--infer compiles them in eval mode"));
  std::vector<c10::IValue> inputs = TRY(exampleInputs(model, options_.inputs));
  Snapshot flat, simplified; // before and after decisions by types
  if (!options_.inputs.empty()) {
    phases_.begin("finding types by running the operators on the example");
    flat = {withOwnGraph(model), context};
    if (llvm::Error error = withDtypeHelp(simplifyWithTypes(model, context, inputs), model, inputs))
      return explained(
          blameNormalForm(std::move(error), path_, sourceMode(), model.signature, inputs), model,
          inputs);
    simplified = {withOwnGraph(model), context};
    phases_.end("infer types");
  }
  phases_.begin("writing and reading the normal form");
  TRY(writeAndRead(model));
  phases_.end("normalise by writing and reading");
  auto atOtherSizes = [&](llvm::ArrayRef<c10::IValue> others) {
    return decidesAlike(flat, simplified, others);
  };
  ExampleStudy found = TRY(runExample(model, context, inputs, inTraining.norms(), atOtherSizes));
  return Source{std::move(model), std::move(context), std::move(inputs), std::move(found)};
}

} // namespace pipec
