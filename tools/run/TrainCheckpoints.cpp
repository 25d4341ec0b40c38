#include "tools/run/TrainCheckpoints.h"

#include "ir/checkpoint/CheckpointFolder.h"
#include "ir/support/Try.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/ProgressLine.h"

#include <cstdlib>
#include <filesystem>

namespace pipec {

namespace cl = llvm::cl;
namespace fs = std::filesystem;

namespace {

cl::OptionCategory checkpointCategory("checkpoints");
StringOption
    checkpointOption("checkpoint",
                     cl::desc("with --train: write checkpoints DIR/step-N, one after the last "
                              "step and when a signal ends the run"),
                     cl::value_desc("DIR"), cl::cat(checkpointCategory));
IntegerOption everyOption("checkpoint-every",
                          cl::desc("with --checkpoint: one after each N-th step, too"),
                          cl::value_desc("N"), cl::cat(checkpointCategory));
IntegerOption
    keepOption("keep",
               cl::desc("with --checkpoint: keep the N newest, and remove older ones when a "
                        "new one is complete (default: all)"),
               cl::value_desc("N"), cl::cat(checkpointCategory));
StringOption
    resumeOption("resume", cl::ValueOptional,
                 cl::desc("with --train: continue from a checkpoint: DIR or the newest one in "
                          "it (default: that of --checkpoint); auto: the newest good one of "
                          "--checkpoint, or step 0 if there is none"),
                 cl::value_desc("DIR|auto"), cl::cat(checkpointCategory));

/// Set by a launcher that starts a job again: torchrun, Slurm.
bool isRestarted() {
  for (const char *name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"})
    if (const char *text = std::getenv(name)) {
      int64_t count = 0;
      if (!llvm::StringRef(text).getAsInteger(10, count) && count > 0)
        return true;
    }
  return false;
}

bool isAuto() {
  return resumeOption == "auto" ||
         (!given(resumeOption) && given(checkpointOption) && isRestarted());
}

/// Of a checkpoint that is damaged: what this command can do about it.
llvm::Error withResumeHelp(llvm::Error error, bool passOverDamaged) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::BadArtifact && passOverDamaged)
    text.help = "to begin anew, pass another --checkpoint directory";
  else if (text.code == ExitCode::BadArtifact && given(checkpointOption) && resumeOption.empty())
    text.help = "--resume=auto takes the newest checkpoint that is not damaged";
  return makeError(text.code, "--resume: " + text.message, text.help);
}

} // namespace

std::vector<const cl::Option *> TrainCheckpoints::options() {
  return {&checkpointOption, &everyOption, &keepOption, &resumeOption};
}

bool TrainCheckpoints::areWritten() { return given(checkpointOption); }

llvm::Error TrainCheckpoints::checkOptions() {
  for (const IntegerOption *option : {&everyOption, &keepOption}) {
    if (given(*option) && !given(checkpointOption))
      return failf(ExitCode::Usage, "{}: expected --checkpoint with it, got none",
                   spelledOption(option->ArgStr));
    if (given(*option) && *option < 1)
      return failf(ExitCode::Usage, "{}: expected at least 1, got {}",
                   spelledOption(option->ArgStr), option->getValue().value);
  }
  if (given(resumeOption) && (resumeOption.empty() || resumeOption == "auto") &&
      !given(checkpointOption))
    return makeError(ExitCode::Usage,
                     "--resume: expected a directory or --checkpoint with it, got none",
                     "pass --resume=DIR");
  return llvm::Error::success();
}

/// Those in the directory of --checkpoint.
static llvm::Expected<std::vector<int64_t>> stepsOfOption() {
  llvm::Expected<std::vector<int64_t>> steps = checkpointSteps(checkpointOption);
  return steps ? std::move(steps) : withContext(steps.takeError(), "--checkpoint");
}

/// Whether the run continues from a checkpoint in the directory that it writes to.
bool TrainCheckpoints::continuesOwn() const {
  if (!resumed_)
    return false;
  std::error_code ignored;
  const fs::path parent = fs::path(llvm::StringRef(resumed_->path).rtrim('/').str()).parent_path();
  return fs::equivalent(parent.empty() ? "." : parent, checkpointOption.getValue(), ignored);
}

/// Refuses to mix the checkpoints of this run with those of another one.
llvm::Error TrainCheckpoints::refuseOthers() const {
  std::vector<int64_t> steps = TRY(stepsOfOption());
  if (steps.empty())
    return llvm::Error::success();
  if (!resumed_)
    return makeError(ExitCode::Usage,
                     fmt::format("--checkpoint: {}: expected no checkpoint there, got one of step "
                                 "{}",
                                 checkpointOption.getValue(), steps.back()),
                     "pass --resume to continue that training, or another directory");
  const bool isOwn = continuesOwn();
  for (int64_t step : steps) {
    if (isOwn && step <= resumed_->step)
      continue;
    const std::string path = checkpointPath(checkpointOption, step);
    llvm::Expected<OpenedCheckpoint> other = openCheckpoint(path);
    if (other && !llvm::is_contained(resumed_->passedOver, path)) // whose values are damaged
      return makeError(ExitCode::Usage,
                       fmt::format("--checkpoint: {}: expected no checkpoint {}, got one of step "
                                   "{}",
                                   checkpointOption.getValue(),
                                   isOwn ? fmt::format("after step {}", resumed_->step)
                                         : std::string("of another training"),
                                   step),
                       "pass another directory");
    if (llvm::Error error = other.takeError())
      if (const ErrorText text = describe(std::move(error)); text.code != ExitCode::BadArtifact)
        return makeError(text.code, text.message, text.help);
    TRY(moveAside(path));
  }
  return llvm::Error::success();
}

llvm::Error TrainCheckpoints::resumeFrom(const std::string &path, bool passOverDamaged,
                                         TrainingBatches &batches, std::optional<uint64_t> seed) {
  llvm::Expected<ResumedTraining> resumed = trainer_.resume(path, passOverDamaged);
  if (!resumed)
    return withResumeHelp(resumed.takeError(), passOverDamaged);
  for (const std::string &warning : resumed->warnings)
    printWarning(warning);
  if (seed && *seed != resumed->seed)
    return makeError(
        ExitCode::Usage,
        fmt::format("--seed: expected {}, that of the checkpoint, got {}", resumed->seed, *seed),
        "leave it out: a resume takes the seed of the checkpoint");
  TRY(batches.checkPosition(resumed->program));
  if (const std::string warning = batches.otherBatch(resumed->program); !warning.empty())
    printWarning(warning);
  batches.setSeed(resumed->seed);
  for (const std::string &difference : resumed->differences)
    printWarning(difference);
  printNote(fmt::format("continuing after step {} from {}", resumed->step, resumed->path));
  resumed_ = std::move(*resumed);
  return llvm::Error::success();
}

llvm::Expected<int64_t> TrainCheckpoints::begin(TrainingBatches &batches,
                                                std::optional<uint64_t> seed) {
  if (isAuto()) {
    std::vector<int64_t> steps = TRY(stepsOfOption());
    if (steps.empty())
      printNote(checkpointOption + " has no checkpoint yet: starting at step 0");
    else
      TRY(resumeFrom(checkpointOption, true, batches, seed));
  } else if (given(resumeOption)) {
    TRY(resumeFrom(resumeOption.empty() ? checkpointOption : resumeOption, false, batches, seed));
  }
  const int64_t first = resumed_ ? resumed_->step : 0;
  if (!given(checkpointOption))
    return first;
  TRY(refuseOthers());
  // Now, and not after hours of training.
  llvm::Expected<CheckpointWriter> trial = CheckpointWriter::create(checkpointOption, first + 1);
  if (!trial)
    return withContext(trial.takeError(), "--checkpoint");
  if (given(keepOption) && continuesOwn()) // a process that was killed may have left older ones
    if (llvm::Error error = trial->removeOlder(keepOption.getValue().value))
      return withContext(std::move(error), "--checkpoint");
  stop_.emplace("stopping after this step, with a checkpoint; the same signal again stops at once");
  return first;
}

llvm::Error TrainCheckpoints::afterStep(int64_t done, int64_t count,
                                        const TrainingBatches &batches) {
  if (!given(checkpointOption))
    return llvm::Error::success();
  const bool isAsked = stop_->isAsked();
  if (done == count || isAsked || (given(everyOption) && done % everyOption == 0)) {
    CheckpointOptions options;
    options.keep = given(keepOption) ? keepOption.getValue().value : 0;
    options.program = batches.position(done);
    if (llvm::Error error = trainer_.saveCheckpoint(checkpointOption, options))
      return withContext(std::move(error), "--checkpoint");
    aboveProgress([&] { printNote("wrote " + checkpointPath(checkpointOption, done)); });
  }
  if (isAsked && done < count)
    stop_->end();
  return llvm::Error::success();
}

void TrainCheckpoints::note(llvm::json::Object &options) const {
  if (given(checkpointOption))
    options["checkpoint"] = checkpointOption.getValue();
  if (given(everyOption))
    options["checkpoint_every"] = everyOption.getValue().value;
  if (given(keepOption))
    options["keep"] = keepOption.getValue().value;
  if (!resumed_)
    return;
  options["resume"] = resumed_->path;
  options["resumed_after_step"] = resumed_->step;
  options["seed"] = static_cast<int64_t>(resumed_->seed);
}

} // namespace pipec
