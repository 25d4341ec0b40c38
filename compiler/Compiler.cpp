#include "compiler/Compiler.h"

#include "compiler/Against.h"
#include "compiler/ArtifactEmitter.h"
#include "compiler/CompileReproducer.h"
#include "compiler/EvaluateGraph.h"
#include "compiler/ExampleRuns.h"
#include "compiler/FaultyPass.h"
#include "compiler/Import.h"
#include "compiler/PassDumps.h"
#include "compiler/Pipelines.h"
#include "compiler/Planning.h"
#include "compiler/RoundTrip.h"
#include "compiler/Validate.h"
#include "ir/BatchDimHint.h"
#include "ir/CanonicalText.h"
#include "ir/MicroBatch.h"
#include "ir/ModelSignature.h"
#include "ir/TorchError.h"
#include "ir/TorchFileTime.h"
#include "ir/Values.h"
#include "ir/Version.h"
#include "ir/plan/PeakMemory.h"
#include "ir/plan/Words.h"
#include "passes/PassManager.h"
#include "passes/analysis/TopLevel.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <unistd.h>

namespace pipec {

namespace {

/// "5 runs with batches of 2, 3 and 5"
std::string countedRuns(const std::vector<ExampleRun> &runs) {
  std::set<int64_t> sizes;
  for (const ExampleRun &run : runs)
    if (run.batch > 0)
      sizes.insert(run.batch);
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty()              ? " with batches of "
             : size == *sizes.rbegin() ? " and "
                                       : ", ") +
            std::to_string(size);
  return counted(runs.size(), "run") + text;
}

bool isSamePlace(const std::string &a, const std::string &b) {
  auto resolved = [](llvm::StringRef path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path.rtrim('/').str(), ignored);
  };
  return resolved(a) == resolved(b);
}

} // namespace

/// One compile: the state that its steps hand on.
struct Compiler::Impl {
  std::string path;

  const CompileOptions *options = nullptr;
  CompileReport report;
  PassDumps dumps;
  FaultyPass faulty;
  FormAnswers forms; // that the types of the example gave
  Planning planning;
  std::chrono::steady_clock::time_point phaseStart;
  WallAndCpu torchFileStart;

  void beginPhases() {
    report = {};
    planning = Planning();
    dumps = PassDumps(options->dumpDir);
    faulty = FaultyPass(options->plantedFault);
    phaseStart = std::chrono::steady_clock::now();
    torchFileStart = torchFileNs();
  }
  void endPhase(const std::string &name) {
    auto now = std::chrono::steady_clock::now();
    report.phases.push_back(
        {name, std::chrono::duration_cast<std::chrono::nanoseconds>(now - phaseStart).count()});
    phaseStart = now;
    report.torchFileNs = torchFileNs().wall - torchFileStart.wall;
    report.torchFileCpuNs = torchFileNs().cpu - torchFileStart.cpu;
  }

  llvm::Error runPasses(const std::string &pipeline, AnyModel &model) {
    PassManagerOptions managerOptions;
    managerOptions.checkHonesty =
        false; // pipe-opt and the tests check it; texts of whole models take long
    managerOptions.registry = faulty.passes();
    managerOptions.printAfter = options->printAfter;
    if (!options->dumpDir.empty())
      managerOptions.afterPass = [this](const PassRun &run) { return dumps.write(run); };
    PassManager manager(managerOptions);
    if (llvm::Error error = manager.addPipeline(faulty.pipeline(pipeline)))
      return error;
    llvm::Expected<bool> changed = manager.run(model);
    if (!changed)
      return changed.takeError();
    return llvm::Error::success();
  }

  llvm::Expected<Model> front(TypeAnswers answers = {}) {
    if (llvm::Error error = checkNames(*options))
      return std::move(error);
    llvm::Expected<Model> imported = importModel(path, options->method);
    if (!imported)
      return imported.takeError();
    imported->mode = options->mode;
    imported->answers = std::move(answers);
    endPhase("import");
    AnyModel model = std::move(*imported);
    if (llvm::Error error = runPasses(frontPipeline(*options), model))
      return std::move(error);
    // Before anything runs: what a run writes must be a copy.
    noteWrites(std::get<Model>(model));
    endPhase("normalise");
    return std::get<Model>(std::move(model));
  }

  /// One value per argument; empty when no example was given.
  llvm::Expected<std::vector<c10::IValue>> exampleInputs(const Model &model) {
    if (options->inputs.empty())
      return std::vector<c10::IValue>{};
    llvm::Expected<Arguments> arguments = argumentsFromOption(options->inputs);
    if (!arguments)
      return arguments.takeError();
    return bindArguments(model.signature, argumentTypes(model), *arguments);
  }

  /// Without an example nothing is known of sizes: tensors are split along dimension 0, outputs are
  /// joined along it.
  static void assumeBatchFirst(Signature &signature, const std::vector<bool> &given) {
    for (size_t i = 0; i < signature.inputs.size(); ++i)
      if (!given[i] && signature.inputs[i].type.find("Tensor") != std::string::npos)
        signature.inputs[i].batchDim = 0;
    for (OutputLeaf &leaf : signature.leaves)
      leaf.merge = leaf.type == "Tensor" || leaf.type == "Optional[Tensor]"
                       ? MergeRule{MergeRule::Kind::Concat, 0}
                       : MergeRule{MergeRule::Kind::List, 0};
  }

  /// Types show which branches are taken for every accepted input; folding those brings operators
  /// to the top level, whose types show more. Nothing runs where a plan has given the answers.
  llvm::Error simplifyWithTypes(Model &model, const std::vector<c10::IValue> &inputs) {
    for (int round = 0; round < kTypedRounds; ++round) {
      if (!model.answers.given)
        if (llvm::Error error = inferTypes(model, ownCopies(inputs)))
          return withArguments(std::move(error), model.signature, inputs);
      std::vector<std::string> before = canonicalLines(model);
      AnyModel any = std::move(model);
      llvm::Error error = runPasses(typedPipeline(), any);
      model = std::get<Model>(std::move(any));
      if (error)
        return error;
      if (canonicalLines(model) == before)
        break;
    }
    eraseTypes(model);
    return llvm::Error::success();
  }

  SourceMode sourceMode() const {
    SourceMode mode; // as lower-attributes folds the flags
    if (options->trainingFlag != TrainingFlag::Saved)
      mode.training = options->trainingFlag == TrainingFlag::True;
    mode.keepEval = options->keepEval;
    return mode;
  }

  llvm::Error explained(llvm::Error error, const Model &model,
                        const std::vector<c10::IValue> &inputs) const {
    Signature signature = model.signature;
    llvm::Expected<std::vector<bool>> given = applyBatchDims(signature, options->batchDims);
    if (!given) {
      llvm::consumeError(given.takeError());
      return error;
    }
    return explainExample(std::move(error), path, sourceMode(), signature, inputs, *given);
  }

  llvm::Expected<std::vector<ExampleRun>> study(Model &model) {
    llvm::Expected<std::vector<c10::IValue>> inputs = exampleInputs(model);
    if (!inputs)
      return inputs.takeError();
    if (!options->inputs.empty()) {
      if (llvm::Error error = simplifyWithTypes(model, *inputs))
        return explained(
            blameNormalForm(std::move(error), path, sourceMode(), model.signature, *inputs), model,
            *inputs);
      endPhase("infer types");
    }
    if (llvm::Expected<bool> changed = roundTrip(model); !changed)
      return changed.takeError();
    endPhase("normalise by writing and reading");
    llvm::Expected<std::vector<bool>> given = applyBatchDims(model.signature, options->batchDims);
    if (!given)
      return given.takeError();
    if (options->inputs.empty()) {
      assumeBatchFirst(model.signature, *given);
      model.notes.push_back(
          "without --inputs nothing shows how the results of micro-batches become "
          "one: tensors are joined along dimension 0, other results become lists");
      return std::vector<ExampleRun>{};
    }
    llvm::Expected<std::vector<ExampleRun>> runs =
        runSource(path, sourceMode(), model, *inputs, *given);
    if (!runs)
      return explained(runs.takeError(), model, *inputs);
    if (std::string dims = suggestBatchDims(model.signature, *inputs);
        !model.signature.batchSymbolic && options->batchDims.empty() && !dims.empty())
      model.notes.push_back("the sizes of the example inputs suggest --batch-dim " + dims +
                            ": without it the model runs at this batch size only");
    endPhase("run the source on the example");
    if (llvm::Error error = plan(model, *inputs))
      return std::move(error);
    return runs;
  }

  llvm::Error plan(Model &model, const std::vector<c10::IValue> &inputs) {
    llvm::Expected<bool> known = planning.findCosts(model, inputs, report);
    if (!known)
      return known.takeError();
    if (!*known)
      return llvm::Error::success();
    endPhase(options->cost == "measured" ? "measure costs" : "estimate costs");
    llvm::Expected<bool> planned = planning.planCuts(model, report);
    if (!planned)
      return planned.takeError();
    if (*planned)
      endPhase("plan the cuts");
    return llvm::Error::success();
  }

  llvm::Expected<StagedModel> cut(Model model) {
    std::vector<CutPredicate> predicates;
    for (const Cut &cut : options->cuts)
      if (const auto *predicate = std::get_if<CutPredicate>(&cut))
        predicates.push_back(*predicate);
    if (!predicates.empty())
      markWhere(model, predicates);
    AnyModel any = std::move(model);
    CompileOptions asked = *options;
    asked.stages = planning.stages();
    if (llvm::Error error = runPasses(stagePipeline(asked, planning.places()), any))
      return std::move(error);
    endPhase("cut");
    return std::get<StagedModel>(std::move(any));
  }

  static void markWhere(Model &model, const std::vector<CutPredicate> &predicates) {
    markBoundaries(model, [&](const std::string &op, const std::string &modulePath, size_t index) {
      return llvm::any_of(predicates, [&](const CutPredicate &predicate) {
        return predicate({op, modulePath, index});
      });
    });
  }

  llvm::Error placeRanks(StagedModel &model) const {
    size_t stages = model.stages.size();
    size_t ranks = options->ranks ? options->ranks : stages;
    if (ranks > stages)
      return failf(ExitCode::Usage, "--ranks: expected at most {}, the number of stages, got {}",
                   stages, ranks);
    for (size_t i = 0; i < stages; ++i)
      model.stages[i].plan.rank = i * ranks / stages;
    return llvm::Error::success();
  }

  Plan planOf(const StagedModel &model) const {
    Plan plan = model.plan();
    plan.toolVersion = pipecVersion();
    plan.torchVersion = torchVersion();
    const bool split = llvm::any_of(
        plan.signature.inputs, [](const InputSpec &input) { return input.batchDim.has_value(); });
    plan.microBatches = options->microBatches ? options->microBatches
                        : split               ? static_cast<int64_t>(plan.stages.size())
                                              : 1;
    plan.normalisation = normalisationOf(*options, forms);
    return plan;
  }

  /// The source in normal form, without running any of it.
  llvm::Expected<Model> normalise(const NormaliseAgain &how) {
    beginPhases();
    llvm::Expected<Model> model = front(how.answers);
    if (!model)
      return model;
    if (how.withExample)
      if (llvm::Error error = simplifyWithTypes(*model, {}))
        return std::move(error);
    if (llvm::Expected<bool> changed = roundTrip(*model); !changed)
      return changed.takeError();
    return model;
  }

  /// The source against an artifact.
  llvm::Error compareWith(const Artifact &artifact, std::vector<Finding> &findings) {
    CompileOptions asked = optionsOf(artifact.plan);
    options = &asked;
    llvm::Expected<std::vector<NormaliseAgain>> ways = waysToNormalise(artifact.plan);
    if (!ways)
      return ways.takeError();
    for (const NormaliseAgain &how : *ways) {
      llvm::Expected<Model> model = normalise(how);
      if (!model)
        return model.takeError();
      llvm::Expected<std::optional<Finding>> found = compareModel(artifact, *model);
      if (!found)
        return found.takeError();
      if (!*found) {
        findings.clear();
        break;
      }
      if (findings.empty()) // of the way that the compile went
        findings.push_back(**found);
    }
    return llvm::Error::success();
  }

  llvm::Error writeAndProve(StagedModel &model, const std::vector<ExampleRun> &runs,
                            SourceRecord &source, ArtifactWriter &writer) {
    if (llvm::Error error = faulty.finish(model))
      return error;
    if (llvm::Error error = placeRanks(model))
      return error;
    if (llvm::Error error = emitStages(model, source.stable, writer))
      return error;
    endPhase("write stages");
    finish(source);
    model.sourceDigest = source.digest;
    endPhase("digest the source");
    Plan plan = planOf(model);
    if (options->verify != Verify::None) {
      if (llvm::Error error = validate(writer.directory(), plan, source))
        return error;
      report.proved.push_back("the stages as read back are the normalised source, operator by "
                              "operator, and hold every byte of its weights");
      endPhase("validate");
    }
    if (!runs.empty()) {
      if (llvm::Error error = runStages(writer.directory(), plan, runs))
        return error;
      report.tested.push_back("the stages give the source's bits on the example inputs, in " +
                              countedRuns(runs));
      endPhase("run the stages on the example");
    }
    if (llvm::Error error = planning.placeStages(plan, report))
      return error;
    // A table that is not the same on every run belongs to what came of it.
    if (planning.isOfThisRun())
      if (llvm::Error error = writer.write("costs.json", report.costTable))
        return error;
    if (llvm::Error error = emitPlan(plan, writer)) // with the sizes that the run showed
      return error;
    llvm::Expected<Plan> readBack = readBackPlan(writer.directory(), plan);
    if (!readBack)
      return readBack.takeError();
    endPhase("write the plan and read it back");
    report.plan = std::move(*readBack);
    return planning.forecast(report);
  }

  struct Staged {
    StagedModel model;
    std::vector<ExampleRun> runs;
    SourceRecord source;
  };

  /// Everything before the first file: all passes, and the source on the example.
  llvm::Expected<Staged> stage() {
    beginPhases();
    if (llvm::Error error = planning.begin(*options))
      return std::move(error);
    if (!options->dumpDir.empty())
      if (llvm::Error error = dumps.prepare(options->replaceDumps))
        return std::move(error);
    llvm::Expected<Model> model = front();
    if (!model)
      return model.takeError();
    llvm::Expected<std::vector<ExampleRun>> runs = study(*model);
    if (!runs)
      return runs.takeError();
    SourceRecord source = recordSource(*model);
    forms = model->answers.forms;
    if (!options->dumpDir.empty() || !options->printAfter.empty()) {
      finish(source); // for the text of the passes that follow
      model->sourceDigest = source.digest;
    }
    endPhase("record the source");
    llvm::Expected<StagedModel> staged = cut(std::move(*model));
    if (!staged)
      return staged.takeError();
    report.notes = staged->notes;
    return Staged{std::move(*staged), std::move(*runs), std::move(source)};
  }

  /// Everything but publication: the files are in `writer`.
  llvm::Error compile(ArtifactWriter &writer) {
    llvm::Expected<Staged> staged = stage();
    if (!staged)
      return staged.takeError();
    return writeAndProve(staged->model, staged->runs, staged->source, writer);
  }

  llvm::Error publish(ArtifactWriter &writer) {
    if (llvm::Error error = writer.publish())
      return error;
    endPhase("publish");
    return llvm::Error::success();
  }

  /// A compile into `target`; `last` is its last step.
  llvm::Expected<ArtifactWriter>
  compileInto(const CompileOptions &given, const std::string &target, bool force,
              llvm::function_ref<llvm::Error(ArtifactWriter &)> last) {
    options = &given;
    if (!given.dumpDir.empty() && isSamePlace(given.dumpDir, target))
      return makeError(ExitCode::Usage,
                       fmt::format("--dump-ir: expected another place than the artifact's, got {}",
                                   given.dumpDir),
                       "choose a place beside it");
    llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(target, force);
    if (!writer)
      return writer;
    if (llvm::Error error = guardTorchError(ExitCode::Internal, "compiling", [&] {
          if (llvm::Error failed = compile(*writer))
            return failed;
          return last(*writer);
        }))
      return withReproducer(std::move(error));
    report.peakMemoryBytes = peakMemoryBytes();
    return writer;
  }

  llvm::Error withReproducer(llvm::Error error) {
    ErrorText text = describe(std::move(error));
    if (text.code == ExitCode::Internal && !options->reproducers.empty())
      text = pipec::withReproducer(text, reproduce(text));
    return makeError(text.code, text.message, text.help);
  }

  /// An internal error leaves a directory to report: the passes run once more, now with the text of
  /// each, which nobody else should pay for. Nothing is left where these texts cannot be written.
  llvm::Expected<std::string> reproduce(const ErrorText &text) const {
    llvm::Expected<Reproducer> made = beginReproducer(path, *options, text);
    if (!made)
      return made.takeError();
    CompileOptions again = *options;
    again.printAfter.clear();
    again.dumpDir = made->directory() + "/passes";
    Impl second;
    second.path = path;
    second.options = &again;
    // Why it fails is known already.
    llvm::consumeError(guardTorchError(ExitCode::Internal, "compiling",
                                       [&] { return second.stage().takeError(); }));
    if (!second.dumps.failure().empty())
      return makeError(ExitCode::IO, second.dumps.failure());
    return made->publish();
  }

  /// What is not published lies beside the system's other temporary files.
  static std::string scratchTarget() {
    const char *directory = std::getenv("TMPDIR");
    return fmt::format("{}/pipec-compile-{}", directory ? directory : "/tmp", getpid());
  }
};

llvm::Expected<Compiler> Compiler::load(const std::string &modelPath) {
  auto impl = std::make_unique<Impl>();
  impl->path = modelPath;
  return Compiler(std::move(impl));
}

Compiler::Compiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Compiler::Compiler(Compiler &&) = default;
Compiler &Compiler::operator=(Compiler &&) = default;
Compiler::~Compiler() = default;

llvm::Expected<CompileReport> Compiler::compile(const CompileOptions &options,
                                                const std::string &outDir, bool force) {
  llvm::Expected<ArtifactWriter> writer = impl_->compileInto(
      options, outDir, force, [&](ArtifactWriter &done) { return impl_->publish(done); });
  if (!writer)
    return writer.takeError();
  return std::move(impl_->report);
}

llvm::Expected<std::vector<Finding>> Compiler::compareWith(const std::string &artifact) {
  llvm::Expected<Artifact> opened = openArtifact(artifact);
  if (!opened)
    return opened.takeError();
  std::vector<Finding> findings;
  if (llvm::Error error = guardTorchError(ExitCode::Internal, "comparing with the model",
                                          [&] { return impl_->compareWith(*opened, findings); }))
    return std::move(error);
  return findings;
}

llvm::Expected<Compiled> Compiler::compile(const CompileOptions &options) {
  llvm::Expected<ArtifactWriter> writer =
      impl_->compileInto(options, Impl::scratchTarget(), /*force=*/false,
                         [](ArtifactWriter &) { return llvm::Error::success(); });
  if (!writer)
    return writer.takeError();
  return Compiled(std::move(impl_->report), std::make_unique<ArtifactWriter>(std::move(*writer)));
}

} // namespace pipec
