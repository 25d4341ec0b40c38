// pipe-inspect: shows the content of an artifact or of a TorchScript file.
#include "compiler/cost/ModuleCosts.h"
#include "ir/artifact/ArtifactCheck.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/TorchMain.h"
#include "tools/inspect/ArtifactPage.h"
#include "tools/report/ArtifactReport.h"
#include "tools/report/ModuleTable.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption model(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe|MODEL.pt"),
                   cl::desc("an artifact, or a TorchScript file"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));
FlagOption schedule("schedule", cl::desc("also draw the schedule: one row per rank, with predicted "
                                         "times, or one step per action if the plan has no costs"));
StringOption html(
    "html", cl::value_desc("FILE"),
    cl::desc(
        "write one HTML page about an artifact: stages and channels, load and memory, the schedule "
        "over time, what is proved, modules; the page needs no other file and no script"));
StringOption trace("trace", cl::value_desc("FILE.json"),
                   cl::desc("with --html: a trace that pipe-run --trace wrote; the page shows the "
                            "measured step and the simulated one"));
StringOption comms("comms", cl::value_desc("FILE"),
                   cl::desc("write the schedule of an artifact as PyTorch's table with sends and "
                            "receives (compute_comms), which PyTorch runs unchanged; exits 2 if a "
                            "channel does not go to the next stage or transmits a weight"));
FlagOption force("force", cl::desc("replace existing files of --html and --comms"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that a MODEL.pt or the stages of an "
                                    "artifact use"));
StringOption inputs("inputs", cl::value_desc("FILE|TEXT"),
                    cl::desc("example inputs of a MODEL.pt, as for pipe-compile: adds a column "
                             "with each module's share of the estimated cost"));
StringOption method("method", cl::value_desc("NAME"), cl::init("forward"),
                    cl::desc("method of a MODEL.pt that gets the --inputs (default: forward)"));

/// The page also shows the problems of an artifact.
llvm::Error writePage(const Artifact &artifact, const Schedule &rows) {
  TRY(refuseExisting(html, force));
  const ArtifactCheck check = checkArtifact(model);
  std::optional<MeasuredRun> measured;
  if (given(trace))
    measured = TRY(readTrace(trace, artifact.plan));
  std::string page = TRY(pageOf(artifact, rows, check, measured ? &*measured : nullptr));
  TRY(writeFileFor(html, page, force));
  if (check.findings.empty())
    return llvm::Error::success();
  return makeError(ExitCode::BadArtifact, model + ": " + check.findings.front().message,
                   "run pipe-check for all findings");
}

llvm::Expected<ExitCode> inspectArtifact() {
  TRY(refuseCheckpoint(model, "an artifact or a TorchScript file"));
  if (given(trace) && !given(html))
    return makeError(ExitCode::Usage, "--trace: expected --html with it, got none",
                     "the page of --html shows the trace");
  for (const StringOption *option : {&inputs, &method})
    if (given(*option))
      return makeError(ExitCode::Usage,
                       spelledOption(option->ArgStr) +
                           ": expected a TorchScript file, got an artifact",
                       "an artifact has the costs of its compile");
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  // Compares every digest, because a damaged artifact may describe itself wrongly. So may one whose
  // MANIFEST was forged, so the stages are checked too, except for the page, which shows the
  // problems.
  Artifact artifact = TRY(openArtifact(model));
  if (!given(html))
    TRY(checkParts(artifact, artifact.warnings));
  for (const std::string &warning : artifact.warnings)
    printWarning(warning);
  const Plan &plan = artifact.plan;
  Schedule rows = TRY(scheduleFromCsv(artifact.scheduleCsv));
  if (given(comms)) {
    std::string table = TRY(torchCommsOf(plan, rows));
    TRY(writeFileFor(comms, table, force));
  }
  if (given(html))
    TRY(writePage(artifact, rows));
  if (json) {
    llvm::json::Object document = artifactJson(artifact, rows);
    document["schema_version"] = 1;
    document["options"] =
        llvm::json::Object{{"model", model.getValue()}, {"schedule", schedule.getValue()}};
    toStdout() << printJson(std::move(document));
    return ExitCode::Success;
  }
  std::string timeline;
  if (schedule)
    timeline = TRY(drawSchedule(artifact, rows));
  printArtifact(toStdout(), artifact, timeline);
  return ExitCode::Success;
}

void printDocument(const std::vector<ModuleNode> &modules,
                   const std::optional<ModuleCosts> &costs) {
  llvm::json::Object options{{"model", model.getValue()},
                             {"method", method.getValue()},
                             {"load_library", llvm::json::Array(libraries)}};
  if (given(inputs))
    options["inputs"] = inputs.getValue();
  toStdout() << printJson(llvm::json::Object{{"schema_version", 1},
                                             {"options", std::move(options)},
                                             {"modules", modulesJson(modules, costs)}});
}

llvm::Expected<ExitCode> inspectModel() {
  for (const auto &[option, asked] : {std::pair{"--schedule", schedule.getValue()},
                                      {"--html", given(html)},
                                      {"--trace", given(trace)},
                                      {"--comms", given(comms)}})
    if (asked && llvm::sys::fs::exists(model))
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected an artifact, got a TorchScript file", option),
                       "compile it first, then inspect the artifact");
  if (given(method) && !given(inputs))
    return makeError(
        ExitCode::Usage, "--method: expected --inputs with it, got none",
        "--method chooses which method gets the inputs; the modules are those of the file");
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  const ModuleTree tree = TRY(readModuleTree(model, method));
  std::optional<ModuleCosts> costs;
  if (given(inputs)) {
    sendModelPrintsToStderr();
    costs = TRY(moduleCosts(model, method, inputs));
  }
  if (json)
    printDocument(tree.modules, costs);
  else
    printModules(toStdout(), tree.modules, costs);
  if (!tree.trainingNote.empty())
    printNote(tree.trainingNote);
  return ExitCode::Success;
}

llvm::Expected<ExitCode> run() {
  return llvm::sys::fs::is_directory(model) ? inspectArtifact() : inspectModel();
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(
      argc, argv,
      {"pipe-inspect",
       "shows what is in an artifact (stages, channels, ties) or in a TorchScript file (modules)",
       "MODEL.pipe|MODEL.pt [options]",
       {"pipe-inspect model.pipe --schedule", "pipe-inspect model.pipe --html model.html",
        "pipe-inspect model.pt", "pipe-inspect model.pt --inputs 'f32[8,3,224,224]'"},
       [] { return artifactParts(model); }},
      run);
}
