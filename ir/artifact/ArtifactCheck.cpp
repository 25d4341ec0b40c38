#include "ir/artifact/ArtifactCheck.h"

#include "ir/artifact/Discharge.h"
#include "ir/artifact/StageModule.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/schedule/Program.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {
namespace {

using Result = CheckStep::Result;

size_t objectsIn(const Plan &plan) {
  size_t count = 0;
  for (const StagePlan &stage : plan.stages)
    count += llvm::count_if(stage.attributes, [](const StageAttribute &attribute) {
      return attribute.kind == AttributeKind::Object;
    });
  return count;
}

class Check {
public:
  explicit Check(const std::string &directory) : directory_(directory) {}

  ArtifactCheck run() {
    step("integrity", true, [&] { return integrity(); });
    bool whole = report_.findings.empty();
    step("plan", whole || !planIsDamaged(), [&] { return plan(); });
    step("schedule", artifact_.has_value(), [&] { return schedule(); });
    step("stages", whole && artifact_, [&] { return stages(); });
    bool loads = report_.steps.back().result == Result::Passed;
    step("proof", loads, [&] { return proof(); });
    return std::move(report_);
  }

private:
  /// Runs one step; it fails when it added findings.
  void step(const std::string &name, bool possible, llvm::function_ref<std::string()> body) {
    if (!possible) {
      report_.steps.push_back({name, Result::Skipped, "not reached"});
      return;
    }
    size_t before = report_.findings.size();
    std::string detail = body();
    bool passed = report_.findings.size() == before;
    if (!passed)
      detail = report_.findings[before].message;
    report_.steps.push_back({name, passed ? Result::Passed : Result::Failed, detail});
  }

  std::string fail(const std::string &code, const std::string &where, llvm::Error error) {
    ErrorText text = describe(std::move(error));
    llvm::StringRef message = text.message;
    // The caller knows which artifact is checked.
    if (message.consume_front(directory_))
      message = message.ltrim(":/ ");
    // A stage file that LibTorch cannot read is a damaged artifact, not a bad input.
    ExitCode exitCode = text.code == ExitCode::Version || text.code == ExitCode::IO
                            ? text.code
                            : ExitCode::BadArtifact;
    const char *general = exitCode == ExitCode::Version ? "version"
                          : exitCode == ExitCode::IO    ? "io-error"
                                                        : nullptr;
    report_.findings.push_back({general ? general : code, where, message.str(), exitCode});
    return "";
  }

  std::string integrity() {
    report_.findings = checkIntegrity(directory_);
    return "every file matches MANIFEST";
  }

  /// Each cause is reported once: a damaged plan.json is a finding already.
  bool planIsDamaged() const {
    return llvm::any_of(report_.findings, [](const Finding &finding) {
      return finding.where.empty() || finding.where == "MANIFEST" || finding.where == "plan.json" ||
             finding.where == "schedule.csv";
    });
  }

  std::string plan() {
    llvm::Expected<Artifact> artifact = openArtifactPlan(directory_);
    if (!artifact)
      return fail("bad-plan", "plan.json", artifact.takeError());
    artifact_ = std::move(*artifact);
    report_.id = artifact_->id;
    report_.warnings = artifact_->warnings;
    const Plan &plan = artifact_->plan;
    return fmt::format("format {}.{}: {} on {}, {}, {}", plan.major, plan.minor,
                       counted(plan.stages.size(), "stage"), counted(plan.ranks, "rank"),
                       counted(plan.channels.size(), "channel"), counted(plan.ties.size(), "tie"));
  }

  std::string schedule() {
    const Plan &plan = artifact_->plan;
    if (llvm::Expected<Program> program = checkSchedule(artifact_->scheduleCsv, plan); !program)
      return fail("bad-schedule", "schedule.csv", program.takeError());
    return fmt::format("{}, {}: every receive has a matching send, and no ranks wait in a cycle",
                       plan.scheduleName, counted(plan.microBatches, "micro-batch"));
  }

  std::string stages() {
    loadStages(*artifact_);
    llvm::Expected<std::optional<Artifact>> evaluation = evaluationOf(*artifact_);
    if (!evaluation)
      return fail("bad-plan", std::string(kEvaluationPrefix) + "plan.json", evaluation.takeError());
    evaluation_ = std::move(*evaluation);
    if (evaluation_)
      loadStages(*evaluation_);
    return "every stage file loads and matches the plan";
  }

  void loadStages(const Artifact &artifact) {
    for (size_t s = 0; s < artifact.plan.stages.size(); ++s) {
      llvm::Expected<StageModule> module =
          StageModule::load(artifact.stagePath(s), artifact.plan.stages[s]);
      if (!module)
        fail("bad-stage", artifact.plan.stages[s].file, module.takeError());
    }
  }

  std::string proof() {
    if (llvm::Error error = proveStages(directory_, artifact_->plan))
      return fail("not-proved", "", std::move(error));
    if (evaluation_)
      if (llvm::Error error = proveStages(directory_, evaluation_->plan))
        return fail("not-proved", "", withContext(std::move(error), "evaluation"));
    std::string objects; // of which the digest has the types
    if (const size_t count = objectsIn(artifact_->plan))
      objects = fmt::format("; --against MODEL.pt compares the state of {}, too",
                            counted(count, "object"));
    return fmt::format("the stages linked together are the source, {}...; {} discharged{}",
                       artifact_->plan.sourceDigest.substr(0, 19),
                       counted(artifact_->plan.obligations.size(), "obligation"), objects);
  }

  std::string directory_;
  std::optional<Artifact> artifact_, evaluation_;
  ArtifactCheck report_;
};

llvm::Error checkStages(const Artifact &artifact, std::vector<std::string> &unchecked) {
  const Plan &plan = artifact.plan;
  if (llvm::Expected<Program> program = checkSchedule(artifact.scheduleCsv, plan); !program)
    return withContext(program.takeError(), artifact.directory + "/schedule.csv");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    llvm::Expected<StageModule> module = StageModule::load(artifact.stagePath(s), plan.stages[s]);
    if (module)
      continue;
    ErrorText text = describe(module.takeError());
    if (!llvm::StringRef(text.help).contains("--load-library"))
      return makeError(text.code, text.message, text.help);
    unchecked.push_back(text.message + "; " + text.help);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error checkParts(const Artifact &artifact, std::vector<std::string> &unchecked) {
  TRY(checkStages(artifact, unchecked));
  std::optional<Artifact> evaluation = TRY(evaluationOf(artifact));
  return evaluation ? checkStages(*evaluation, unchecked) : llvm::Error::success();
}

llvm::Error proveStages(const std::string &directory, const Plan &plan) {
  Relinked linked = TRY(relink(directory, plan));
  if (linked.digest != plan.sourceDigest)
    return failf(ExitCode::BadArtifact,
                 "the stages linked together are not the source: expected {}, got {}",
                 plan.sourceDigest, linked.digest);
  return discharge(plan, linked.stages);
}

ArtifactCheck checkArtifact(const std::string &directory) { return Check(directory).run(); }

} // namespace pipec
