#include "tools/checks/RequestedChecks.h"

#include "compiler/InternalOptions.h"
#include "ir/artifact/ArtifactDifferences.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "tools/case/ArtifactCase.h"
#include "tools/cli/ModelPrints.h"

#include <filesystem>

namespace pipec {

namespace {

/// Adds a step with the given findings.
void addStep(ArtifactCheck &check, const std::string &name, std::vector<Finding> findings,
             const std::string &detail) {
  using Result = CheckStep::Result;
  check.steps.push_back({name, findings.empty() ? Result::Passed : Result::Failed,
                         findings.empty() ? detail : findings.front().message});
  std::move(findings.begin(), findings.end(), std::back_inserter(check.findings));
}

llvm::Error compareWithOlder(const CheckRequest &request, ArtifactCheck &check,
                             std::vector<std::string> &notes) {
  TRY(refuseCheckpoint(*request.against, "a model or an artifact"));
  ArtifactDifferences differences = TRY(compareArtifacts(request.artifact, *request.against));
  notes.insert(notes.end(), differences.notes.begin(), differences.notes.end());
  addStep(check, "against", std::move(differences.findings),
          "no difference from " + *request.against);
  return llvm::Error::success();
}

llvm::Error checkAgainst(const CheckRequest &request, ArtifactCheck &check,
                         std::vector<std::string> &notes) {
  if (std::filesystem::is_directory(*request.against)) {
    llvm::Error error = compareWithOlder(request, check, notes);
    return error ? withContext(std::move(error), "--against") : llvm::Error::success();
  }
  InternalOptions internal;
  internal.loss = request.loss;
  internal.method = request.method;
  Compiler compiler = TRY(loadWith(*request.against, std::move(internal)));
  llvm::Expected<std::vector<Finding>> findings = compiler.compareWith(request.artifact);
  if (!findings)
    return withContext(findings.takeError(), "--against");
  addStep(check, "against", std::move(*findings),
          "the stages are " + *request.against + ", operator by operator and byte by byte");
  return llvm::Error::success();
}

llvm::Error checkCase(const CheckRequest &request, ArtifactCheck &check,
                      std::vector<std::string> &notes) {
  const std::string &directory = *request.caseDirectory;
  llvm::Expected<ArtifactCase> recorded = readCase(directory);
  if (!recorded)
    return withContext(recorded.takeError(), "--case");
  Artifact opened = TRY(openArtifactPlan(request.artifact));
  const bool samePipec = opened.plan.toolVersion == recorded->toolVersion;
  std::string context = "--case";
  if (opened.plan.sourceDigest != recorded->sourceDigest) {
    const std::string what =
        samePipec ? std::string("another model, or with this one compiled with other options")
                  : fmt::format("another source or another pipec ({})", recorded->toolVersion);
    notes.push_back(
        fmt::format("{}: recorded with {}; only the numbers are compared", directory, what));
    context += fmt::format(": {}, recorded with {}", directory, what);
  }
  sendModelPrintsToStderr();
  llvm::Expected<Comparison> comparison = runCase(request.artifact, directory, *recorded);
  if (!comparison)
    return withContext(comparison.takeError(), context);
  std::vector<Finding> findings;
  if (!comparison->equal)
    findings.push_back(differenceFound("numbers", directory, comparison->firstDifference));
  addStep(check, "case", std::move(findings),
          fmt::format("{}: {} equal to the unsplit model's, in {}", directory,
                      counted(comparison->numbers, "number"),
                      counted(recorded->microBatches, "micro-batch")));
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<std::string>> addRequestedChecks(const CheckRequest &request,
                                                            ArtifactCheck &check) {
  struct Requested {
    bool asked;
    const char *name;
    llvm::Error (*run)(const CheckRequest &, ArtifactCheck &, std::vector<std::string> &notes);
  };
  std::vector<std::string> notes;
  const bool whole = check.findings.empty();
  for (const Requested &more : {Requested{request.against.has_value(), "against", checkAgainst},
                                Requested{request.caseDirectory.has_value(), "case", checkCase}}) {
    if (!more.asked)
      continue;
    if (whole)
      TRY(more.run(request, check, notes));
    else
      check.steps.push_back({more.name, CheckStep::Result::Skipped, "not reached"});
  }
  return notes;
}

} // namespace pipec
