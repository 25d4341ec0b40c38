// pipe-check: checks whether an artifact is complete and valid, matches its model or an older
// artifact, and reproduces recorded results.
#include "compiler/Compiler.h"
#include "compiler/InternalOptions.h"
#include "ir/artifact/ArtifactCheck.h"
#include "ir/artifact/ArtifactDifferences.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/FileKind.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/case/ArtifactCase.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/TorchMain.h"
#include "tools/report/CheckReport.h"

#include <filesystem>
#include <fstream>

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption artifact(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe"),
                      cl::desc("the artifact that pipe-compile wrote"));
StringOption
    against("against", cl::value_desc("MODEL.pt|OLD.pipe"),
            cl::desc("a model: prove, without running it, that the stages equal this source; an "
                     "artifact: list what changed since that one, exit 7 if anything did"));
StringOption loss("loss", cl::value_desc("LOSS.pt"),
                  cl::desc("with --against MODEL.pt: the loss that pipe-compile --loss joined"));
StringOption method("method", cl::value_desc("NAME"), cl::init("forward"),
                    cl::desc("with --loss: the model's method that the compile took (default: "
                             "forward)"));
StringOption caseOption(
    "case", cl::value_desc("DIR"),
    cl::desc(
        "also run a case that pipe-compile --record-case wrote; exit 7 if the numbers differ"));
FlagOption json("json", cl::desc("print one JSON document instead of the table"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that the stages use"));

/// Messages that are no problems: versions, a case of another source.
std::vector<std::string> notes;

void printDocument(const ArtifactCheck &check) {
  llvm::json::Object options{{"artifact", artifact.getValue()},
                             {"load_library", llvm::json::Array(libraries)}};
  for (const auto &[name, option] :
       {std::pair<const char *, const StringOption &>("against", against),
        {"loss", loss},
        {"method", method},
        {"case", caseOption}})
    if (given(option))
      options[name] = option.getValue();
  llvm::json::Object document = checkJson(check);
  document["schema_version"] = 1;
  document["options"] = std::move(options);
  document["notes"] = llvm::json::Array(notes);
  toStdout() << printJson(std::move(document));
}

/// Adds a step with the given findings.
void addStep(ArtifactCheck &check, const std::string &name, std::vector<Finding> findings,
             const std::string &detail) {
  using Result = CheckStep::Result;
  check.steps.push_back({name, findings.empty() ? Result::Passed : Result::Failed,
                         findings.empty() ? detail : findings.front().message});
  std::move(findings.begin(), findings.end(), std::back_inserter(check.findings));
}

llvm::Error checkAgainst(ArtifactCheck &check) {
  if (std::filesystem::is_directory(against.getValue())) {
    if (llvm::Error error = refuseCheckpoint(against, "a model or an artifact"))
      return withContext(std::move(error), "--against");
    llvm::Expected<ArtifactDifferences> differences = compareArtifacts(artifact, against);
    if (!differences)
      return withContext(differences.takeError(), "--against");
    notes.insert(notes.end(), differences->notes.begin(), differences->notes.end());
    addStep(check, "against", std::move(differences->findings),
            "no difference from " + against.getValue());
    return llvm::Error::success();
  }
  InternalOptions internal;
  internal.loss = loss;
  internal.method = method;
  Compiler compiler = TRY(loadWith(against, std::move(internal)));
  llvm::Expected<std::vector<Finding>> findings = compiler.compareWith(artifact);
  if (!findings)
    return withContext(findings.takeError(), "--against");
  addStep(check, "against", std::move(*findings),
          "the stages are " + against.getValue() + ", operator by operator and byte by byte");
  return llvm::Error::success();
}

llvm::Error checkCase(ArtifactCheck &check) {
  llvm::Expected<ArtifactCase> recorded = readCase(caseOption);
  if (!recorded)
    return withContext(recorded.takeError(), "--case");
  Artifact opened = TRY(openArtifactPlan(artifact));
  const bool samePipec = opened.plan.toolVersion == recorded->toolVersion;
  std::string context = "--case";
  if (opened.plan.sourceDigest != recorded->sourceDigest) {
    const std::string what =
        samePipec ? std::string("another model, or with this one compiled with other options")
                  : fmt::format("another source or another pipec ({})", recorded->toolVersion);
    notes.push_back(fmt::format("{}: recorded with {}; only the numbers are compared",
                                caseOption.getValue(), what));
    context += fmt::format(": {}, recorded with {}", caseOption.getValue(), what);
  }
  sendModelPrintsToStderr();
  llvm::Expected<Comparison> comparison = runCase(artifact, caseOption, *recorded);
  if (!comparison)
    return withContext(comparison.takeError(), context);
  std::vector<Finding> findings;
  if (!comparison->equal)
    findings.push_back(differenceFound("numbers", caseOption, comparison->firstDifference));
  addStep(check, "case", std::move(findings),
          fmt::format("{}: {} equal to the unsplit model's, in {}", caseOption.getValue(),
                      counted(comparison->numbers, "number"),
                      counted(recorded->microBatches, "micro-batch")));
  return llvm::Error::success();
}

/// The requested checks beside those of the artifact itself. If the artifact is damaged, its
/// content is neither used nor run.
llvm::Error checkMore(ArtifactCheck &check) {
  struct More {
    const StringOption &option;
    const char *name;
    llvm::Error (*run)(ArtifactCheck &);
  };
  const bool whole = check.findings.empty();
  for (const More &more :
       {More{against, "against", checkAgainst}, More{caseOption, "case", checkCase}}) {
    if (!given(more.option))
      continue;
    if (!whole)
      check.steps.push_back({more.name, CheckStep::Result::Skipped, "not reached"});
    else if (llvm::Error error = more.run(check))
      return error;
  }
  return llvm::Error::success();
}

llvm::Expected<ExitCode> run() {
  if (given(loss) && (!given(against) || std::filesystem::is_directory(against.getValue())))
    return makeError(ExitCode::Usage, "--loss: expected --against MODEL.pt with it, got none");
  if (given(method) && !given(loss))
    return makeError(ExitCode::Usage, "--method: expected --loss with it, got none",
                     "leave it out: the plan names the method");
  TRY(refuseCheckpoint(artifact, "an artifact"));
  TRY(refuseOtherThanArtifact(artifact));
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  ArtifactCheck check = checkArtifact(artifact);
  TRY(checkMore(check));
  for (const std::string &warning : check.warnings)
    printWarning(warning);
  for (const std::string &note : notes)
    printNote(note);
  if (json)
    printDocument(check);
  else
    printCheck(toStdout(), check);
  if (check.findings.empty()) {
    printVerdict(true, "", json);
    return ExitCode::Success;
  }
  const Finding &first = check.findings.front();
  std::string more =
      check.findings.size() > 1 ? fmt::format(" (and {} more)", check.findings.size() - 1) : "";
  const bool isNamed = startsWith(first.message, "cannot read " + artifact + ":");
  printVerdict(false, (isNamed ? "" : artifact + ": ") + first.message + more, json);
  return first.exitCode;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(argc, argv,
                  {"pipe-check",
                   "checks an artifact: files, plan, schedule, and that the stages equal the "
                   "source; runs it only if a case is given",
                   "MODEL.pipe [options]",
                   {"pipe-check model.pipe", "pipe-check model.pipe --against model.pt",
                    "pipe-check model.pipe --against old.pipe --json",
                    "pipe-check model.pipe --case model.case"},
                   [] { return artifactParts(artifact); }},
                  run);
}
