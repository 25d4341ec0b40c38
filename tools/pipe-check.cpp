// pipe-check: checks whether an artifact is complete and valid, matches its model or an older
// artifact, and reproduces recorded results.
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/FileKind.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "tools/checks/RequestedChecks.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/TorchMain.h"
#include "tools/report/CheckReport.h"

#include <filesystem>

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

void printDocument(const ArtifactCheck &check, const std::vector<std::string> &notes) {
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
  const std::vector<std::string> notes = TRY(
      addRequestedChecks({artifact, asGiven(against), loss, method, asGiven(caseOption)}, check));
  for (const std::string &warning : check.warnings)
    printWarning(warning);
  for (const std::string &note : notes)
    printNote(note);
  if (json)
    printDocument(check, notes);
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
