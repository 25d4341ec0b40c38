#include "compiler/Compiler.h"

#include "compiler/CompileReproducer.h"
#include "compiler/CompileRun.h"
#include "compiler/GivenSchedule.h"
#include "compiler/Pipelines.h"
#include "compiler/verify/MatchTrained.h"
#include "ir/TorchError.h"
#include "ir/support/FileKind.h"
#include "ir/support/PeakMemory.h"
#include "ir/support/Try.h"
#include "ir/support/WriteFile.h"
#include "ir/torchfile/JoinLoss.h"
#include "ir/torchfile/TorchFile.h"

#include <filesystem>
#include <unistd.h>

namespace pipec {

namespace {

bool isSamePlace(const std::string &a, const std::string &b) {
  auto resolved = [](llvm::StringRef path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path.rtrim('/').str(), ignored);
  };
  return resolved(a) == resolved(b);
}

/// Unpublished files are beside the system's other temporary files.
std::string scratchTarget() {
  const char *directory = std::getenv("TMPDIR");
  return fmt::format("{}/pipec-compile-{}", directory ? directory : "/tmp", getpid());
}

llvm::Error writePipeline(const std::string &directory, const std::string &text) {
  if (std::error_code code = writeFile(directory + "/pipeline.txt", text + "\n"))
    return failf(ExitCode::IO, "pipeline.txt: cannot write: {}",
                 llvm::StringRef(code.message()).lower());
  return llvm::Error::success();
}

/// Runs the passes once more with the text of each, so that normal compiles do not pay for the
/// texts.
llvm::Error traceInto(const std::string &path, const CompileOptions &options,
                      const InternalOptions &internal, const std::string &directory) {
  CompileOptions again = options;
  again.printAfter.clear();
  again.dumpDir = directory + "/passes";
  const std::string copy = (directory + "/" + kModelFile).str();
  if (std::error_code code;
      options.reproducerWeights && !std::filesystem::copy_file(path, copy, code))
    return failf(ExitCode::IO, "{}: cannot write: {}", kModelFile.str(), code.message());
  CompileRun second(path, again, internal);
  // Before anything runs, which may end the process.
  TRY(writePipeline(directory, second.pipelineText()));
  // The reason of the failure is known already.
  llvm::consumeError(
      guardTorchError(ExitCode::Internal, "compiling", [&] { return second.stageOnly(); }));
  if (!second.dumps().failure().empty())
    return makeError(ExitCode::IO, second.dumps().failure());
  return writePipeline(directory, second.pipelineText()); // with the planned places
}

/// An internal error leaves a directory for a report. If its texts cannot be written, nothing is
/// left.
llvm::Expected<std::string> reproduce(const std::string &path, const CompileOptions &options,
                                      const InternalOptions &internal, const ErrorText &text) {
  Reproducer made = TRY(beginReproducer(path, options, internal.command, text));
  TRY(traceInto(path, options, internal, made.directory()));
  return made.publish();
}

llvm::Error withReproducer(llvm::Error error, const std::string &path,
                           const CompileOptions &options, const InternalOptions &internal) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Internal && !options.reproducers.empty())
    text = withReproducer(text, reproduce(path, options, internal, text));
  return makeError(text.code, text.message, text.help);
}

/// The files of a compile, and its report.
struct Result {
  CompileReport report;
  ArtifactWriter files;
};

/// Compiles into `target`, and publishes it or not.
llvm::Expected<Result> compileInto(const std::string &path, const CompileOptions &options,
                                   const InternalOptions &internal, const std::string &target,
                                   bool force, bool publish) {
  if (!options.dumpDir.empty() && isSamePlace(options.dumpDir, target))
    return makeError(ExitCode::Usage,
                     fmt::format("--dump-ir: expected a directory outside the artifact, got {}",
                                 options.dumpDir),
                     "choose a path outside the artifact");
  TRY(refuseDirectory(path, Wanted::Model)); // an artifact is not its own target
  CompileOptions agreed = TRY(withScheduleTable(options));
  ArtifactWriter writer = TRY(ArtifactWriter::create(target, force));
  CompileRun run(path, agreed, internal);
  if (llvm::Error error = guardTorchError(ExitCode::Internal, "compiling", [&] {
        TRY(run.compile(writer));
        return publish ? run.publish(writer) : llvm::Error::success();
      }))
    return withReproducer(std::move(error), path, agreed, internal);
  run.report().peakMemoryBytes = peakMemoryBytes();
  return Result{std::move(run.report()), std::move(writer)};
}

/// How the artifact was compiled from the file. The plan names a method and does not say whether
/// --loss made it. If the file has a method of this name, it did not.
llvm::Expected<CompileOptions> optionsFor(const std::string &path, const Plan &plan,
                                          const InternalOptions &internal) {
  CompileOptions options = optionsOf(plan);
  const torch::jit::Module model = TRY(loadMapped(path));
  const bool isJoined = plan.signature.method == nameOfJoinedMethod(model);
  if (isJoined && internal.loss.empty())
    return makeError(ExitCode::Usage,
                     fmt::format("expected the loss that the compile joined to the model (method "
                                 "{}), got none",
                                 plan.signature.method),
                     "pass --loss with the file that pipe-compile --loss was given, or a model "
                     "with this method");
  if (!isJoined && !internal.loss.empty())
    return makeError(ExitCode::Usage,
                     "--loss: expected an artifact with a joined loss, got one of method " +
                         plan.signature.method,
                     "leave it out");
  if (isJoined) {
    options.loss = internal.loss;
    options.method = internal.method;
  }
  return options;
}

/// Compares an artifact with its possible source.
llvm::Error compareSource(const std::string &path, const Artifact &artifact,
                          const CompileOptions &options, std::vector<Finding> &findings) {
  std::vector<NormaliseAgain> ways = TRY(waysToNormalise(artifact.plan));
  for (const NormaliseAgain &how : ways) {
    CompileReport ignored;
    PassDumps dumps;
    Phases phases(ignored);
    Model model = TRY(FrontEnd(path, options, dumps, phases).normalise(how));
    std::optional<Finding> found = TRY(compareModel(artifact, model));
    if (!found) {
      findings.clear();
      return llvm::Error::success();
    }
    if (findings.empty()) // of the way that the compile took
      findings.push_back(*found);
  }
  if (!decisionsAreNumbers(artifact.plan))
    return llvm::Error::success();
  findings.clear(); // they may only show that the compile went another way
  return makeError(
      ExitCode::Version,
      fmt::format("plan.json: format {}.{} numbers what the types of the example decided, in the "
                  "order of pipec {}'s passes: this pipec cannot repeat that, and cannot tell "
                  "whether {} is the source",
                  artifact.plan.major, artifact.plan.minor, artifact.plan.toolVersion, path),
      "compile the model again; without --against the artifact is checked and runs as before");
}

/// What both train. The comparison of the stages ends at the first difference; this names each
/// parameter that differs.
llvm::Error compareTraining(const std::string &path, const Artifact &artifact,
                            const CompileOptions &options, std::vector<Finding> &findings) {
  if (!artifact.plan.training)
    return llvm::Error::success();
  CompileReport ignored;
  PassDumps dumps;
  Phases phases(ignored);
  FrontEnd frontEnd(path, options, dumps, phases);
  const torch::jit::Module source = TRY(frontEnd.source().next(Prints::Removed));
  const std::vector<Finding> found = TRY(compareTrained(artifact.plan, source));
  findings.insert(findings.end(), found.begin(), found.end());
  return llvm::Error::success();
}

/// The same for the stages of an artifact that evaluate, if there are any.
llvm::Error compareEvaluation(const std::string &path, const Artifact &training,
                              const InternalOptions &internal, std::vector<Finding> &findings) {
  std::optional<Artifact> artifact = TRY(evaluationOf(training));
  if (!artifact)
    return llvm::Error::success();
  CompileOptions options = TRY(optionsFor(path, artifact->plan, internal));
  options.evaluation = true;
  std::vector<Finding> found;
  if (llvm::Error error = compareSource(path, *artifact, options, found))
    return withContext(std::move(error), "evaluation");
  for (Finding &finding : found) {
    finding.message = "evaluation: " + finding.message;
    findings.push_back(std::move(finding));
  }
  return llvm::Error::success();
}

} // namespace

struct Compiler::Impl {
  std::string path;
  InternalOptions internal;
};

llvm::Expected<Compiler> Compiler::load(const std::string &modelPath) {
  return Compiler(modelPath, {});
}

std::string Compiler::pipelineText(const CompileOptions &options) {
  return wholePipelineText(options, {});
}

Compiler::Compiler(const std::string &modelPath, InternalOptions internal)
    : impl_(std::make_unique<Impl>(Impl{modelPath, std::move(internal)})) {}
Compiler::Compiler(Compiler &&) = default;
Compiler &Compiler::operator=(Compiler &&) = default;
Compiler::~Compiler() = default;

llvm::Expected<CompileReport> Compiler::compile(const CompileOptions &options,
                                                const std::string &outDir, bool force) {
  Result result = TRY(compileInto(impl_->path, options, impl_->internal, outDir, force, true));
  return std::move(result.report);
}

llvm::Expected<Compiled> Compiler::compile(const CompileOptions &options) {
  Result result =
      TRY(compileInto(impl_->path, options, impl_->internal, scratchTarget(), false, false));
  return Compiled(std::move(result.report),
                  std::make_unique<ArtifactWriter>(std::move(result.files)));
}

llvm::Error Compiler::trace(const CompileOptions &options, const std::string &directory) {
  return traceInto(impl_->path, options, impl_->internal, directory);
}

llvm::Expected<std::vector<Finding>> Compiler::compareWith(const std::string &artifact) {
  Artifact opened = TRY(openArtifact(artifact));
  const CompileOptions options = TRY(optionsFor(impl_->path, opened.plan, impl_->internal));
  std::vector<Finding> findings;
  TRY(guardTorchError(ExitCode::Internal, "comparing with the model", [&] {
    if (llvm::Error failed = compareSource(impl_->path, opened, options, findings))
      return failed;
    if (llvm::Error failed = compareTraining(impl_->path, opened, options, findings))
      return failed;
    return compareEvaluation(impl_->path, opened, impl_->internal, findings);
  }));
  return findings;
}

} // namespace pipec
