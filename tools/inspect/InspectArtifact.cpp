#include "tools/inspect/InspectArtifact.h"

#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/OutputFile.h"
#include "tools/inspect/ArtifactPage.h"
#include "tools/report/ArtifactReport.h"

namespace pipec {

namespace {

/// The page also shows the problems of an artifact.
llvm::Error writePage(const InspectCommand &command, const Artifact &artifact,
                      const Schedule &rows) {
  TRY(refuseExisting(command.html, command.force));
  const ArtifactCheck check = checkArtifact(command.model);
  std::optional<MeasuredRun> measured;
  if (given(command.trace))
    measured = TRY(readTrace(command.trace, artifact.plan));
  std::string page = TRY(pageOf(artifact, rows, check, measured ? &*measured : nullptr));
  TRY(writeFileFor(command.html, page, command.force));
  if (check.findings.empty())
    return llvm::Error::success();
  return makeError(ExitCode::BadArtifact, command.model + ": " + check.findings.front().message,
                   "run pipe-check for all findings");
}

} // namespace

llvm::Error inspectArtifact(const InspectCommand &command) {
  TRY(refuseCheckpoint(command.model, "an artifact or a TorchScript file"));
  if (given(command.trace) && !given(command.html))
    return makeError(ExitCode::Usage, "--trace: expected --html with it, got none",
                     "the page of --html shows the trace");
  for (const StringOption *option : {&command.inputs, &command.method})
    if (given(*option))
      return makeError(ExitCode::Usage,
                       spelledOption(option->ArgStr) +
                           ": expected a TorchScript file, got an artifact",
                       "an artifact has the costs of its compile");
  for (const std::string &library : command.libraries)
    TRY(loadLibrary(library));
  // Compares every digest, because a damaged artifact may describe itself wrongly. So may one whose
  // MANIFEST was forged, so the stages are checked too, except for the page, which shows the
  // problems.
  Artifact artifact = TRY(openArtifact(command.model));
  if (!given(command.html))
    TRY(checkParts(artifact, artifact.warnings));
  for (const std::string &warning : artifact.warnings)
    printWarning(warning);
  const Plan &plan = artifact.plan;
  Schedule rows = TRY(scheduleFromCsv(artifact.scheduleCsv));
  if (given(command.comms)) {
    std::string table = TRY(torchCommsOf(plan, rows));
    TRY(writeFileFor(command.comms, table, command.force));
  }
  if (given(command.html))
    TRY(writePage(command, artifact, rows));
  PlanTiming timing;
  if (plan.training || command.schedule)
    timing = TRY(timeArtifact(artifact, rows));
  if (command.json) {
    llvm::json::Object document = artifactJson(artifact, rows, timing);
    document["schema_version"] = 1;
    document["options"] =
        llvm::json::Object{{"model", command.model.getValue()}, {"schedule", command.schedule}};
    toStdout() << printJson(std::move(document));
    return llvm::Error::success();
  }
  std::string timeline;
  if (command.schedule)
    timeline = TRY(drawSchedule(artifact, rows, timing));
  printArtifact(toStdout(), artifact, rows, timing, timeline);
  return llvm::Error::success();
}

} // namespace pipec
