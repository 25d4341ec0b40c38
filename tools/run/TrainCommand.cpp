#include "tools/run/TrainCommand.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/CompareValues.h"
#include "ir/values/ValueFiles.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/cli/ToolMain.h"
#include "tools/run/EvalRuns.h"
#include "tools/run/RunNotes.h"
#include "tools/run/StepLines.h"
#include "tools/run/TrainCheckpoints.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>

namespace pipec {

namespace {

/// Of the options of every run, those that a training uses.
struct TrainTarget {
  bool isArtifact = false;
  std::string inputs;           // empty: not given
  std::string output;           // file for parameters and buffers; empty: not given
  std::optional<uint64_t> seed; // given by the user
  int64_t replicas = 1;
  int64_t microBatches = 0; // of all replicas; 0: any number
  bool json = false;
  bool hasTrace = false;
};

/// Errors: Usage if the last batch of an epoch has too few samples.
llvm::Error checkMicroBatches(const TrainingBatches &batches, const StepSource &source,
                              const TrainTarget &target) {
  const int64_t microBatches = target.microBatches;
  if (batches.leastSamples() == 0 || microBatches <= batches.leastSamples())
    return llvm::Error::success();
  const char *help = microBatches > source.batch
                         ? "pass a larger --batch"
                         : "choose --batch so that the last batch of an epoch has enough samples, "
                           "or leave that batch out with --drop-last";
  if (target.replicas > 1)
    return makeError(ExitCode::Usage,
                     fmt::format("--replicas: expected at most {} micro-batches in all replicas, "
                                 "the samples of the smallest batch of --data, got {} in {}",
                                 batches.leastSamples(), microBatches, target.replicas),
                     help);
  return makeError(ExitCode::Usage,
                   fmt::format("--microbatches: expected at most {}, the samples of the smallest "
                               "batch of --data, got {}",
                               batches.leastSamples(), microBatches),
                   help);
}

/// The last batch of an epoch may have too few samples for the schedule.
llvm::Error checkLastBatch(const Trainer &trainer, TrainSteps &steps, const StepSource &source) {
  const TrainingBatches &batches = steps.batches();
  const int64_t least = batches.leastSamples();
  if (!trainer.check || least == 0 || least == source.batch ||
      steps.count() * source.accumulate < batches.stepsPerEpoch())
    return llvm::Error::success();
  const std::vector<c10::IValue> last = TRY(guardTorch(ExitCode::Usage, "taking a batch", [&] {
    return batches.batch(batches.stepsPerEpoch() - 1);
  }));
  llvm::Error error = trainer.check(last);
  if (!error)
    return error;
  const ErrorText text = describe(std::move(error));
  return makeError(text.code,
                   fmt::format("the last batch of an epoch, with {}: {}",
                               counted(static_cast<size_t>(least), "sample"), text.message),
                   text.help.empty() ? "choose another --batch, or leave that batch out with "
                                       "--drop-last"
                                     : text.help);
}

llvm::Expected<std::optional<EvalRuns>> readEvaluations(const TrainOptions &options,
                                                        const Trainer &trainer) {
  if (options.evalData.empty())
    return std::nullopt;
  llvm::Expected<EvalRuns> runs =
      EvalRuns::read(trainer, options.evalData, options.source.batch,
                     options.training.reduction.value_or(LossReduction::Mean));
  if (!runs)
    return withContext(runs.takeError(), "--eval-data");
  return std::move(*runs);
}

/// No step is left to run. Errors: Usage where a result of a step was asked for.
llvm::Error noteComplete(const TrainOptions &options, const TrainTarget &target, int64_t done,
                         int64_t count) {
  for (const auto &[name, isGiven] :
       {std::pair<const char *, bool>("--emit-grads", !options.emitGrads.empty()),
        {"--trace", target.hasTrace},
        {"--verify run", options.training.verifySplit}})
    if (isGiven)
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected a step to run, got none: the checkpoint is of "
                                   "step {}, and {} are asked for",
                                   name, done, count),
                       "pass more --steps or --epochs");
  printNote(fmt::format("the training is complete: the checkpoint is of step {}, and {} are asked "
                        "for; --steps counts those before a resume, too",
                        done, count));
  return llvm::Error::success();
}

/// How far the backwards of the artifact are split, which a run with --verify run has compared.
void noteVerified(const Plan &plan) {
  const auto split =
      llvm::count_if(plan.training->whyWhole, [](const std::string &why) { return why.empty(); });
  printNote(fmt::format("--verify run: I and W of {} of {} stages have the gradients of the whole "
                        "backward",
                        split, plan.stages.size()));
}

/// The parameters and buffers can be in a file. After the last step it is too late to find that
/// they cannot.
llvm::Error checkState(const Trainer &trainer, const char *option) {
  for (const auto &entry : trainer.state().toGenericDict())
    if (entry.value().toTensor().layout() != at::kStrided)
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected dense parameters and buffers, which a file can "
                                   "hold, got {}, a sparse one",
                                   option, entry.key().toStringRef()),
                       "keep the indices and values of the tensor in buffers, and make it in "
                       "forward");
  return llvm::Error::success();
}

/// One step, with its line and its numbers in the report. Returns the loss.
llvm::Expected<double> runStep(const TrainOptions &options, const TrainSteps &steps, int64_t step,
                               const Trainer &trainer, bool json, RunReport &report) {
  const Trainer::Batches batches = TRY(steps.of(step));
  StepStats stats;
  llvm::Expected<TrainedStep> done = options.source.presplit
                                         ? trainer.stepOnMicroBatches(batches, stats)
                                         : trainer.stepOnBatches(batches, stats);
  if (!done)
    return withContext(done.takeError(), fmt::format("step {}", step + 1));
  StepLine line{.step = step + 1,
                .of = steps.count(),
                .result = *done,
                .ns = stats.makespanNs,
                .peakMemory = trainer.peakMemory(),
                .updates = options.training.updates()};
  for (const std::vector<c10::IValue> &batch : batches)
    line.samples += batchSizeOr(0, trainer.signature(), batch);
  json ? printJsonLine(line) : printLine(line);
  report.samples = line.samples;
  report.allSamples += line.samples;
  report.add(stats);
  report.skippedSteps += done->skipped;
  return done->loss;
}

/// Names the state that a file of parameters and buffers cannot hold.
void warnOfUnsaved(const Trainer &trainer, const std::string &output) {
  constexpr size_t kMostNames = 5;
  llvm::Expected<std::vector<std::string>> names = trainer.unsavedState();
  if (!names)
    llvm::consumeError(names.takeError()); // the model's file is gone, and the training succeeded
  else if (!names->empty())
    printWarning(fmt::format("{} lacks {}, which the training changes: the file has parameters and "
                             "buffers only; --checkpoint DIR keeps all state",
                             output, someOf(*names, kMostNames)));
}

/// A skipped step updates no weight, but its forwards have written state.
void warnOfNotFinite(const Trainer &trainer) {
  std::vector<std::string> names;
  for (const auto &entry : trainer.state().toGenericDict())
    if (const at::Tensor tensor = entry.value().toTensor();
        tensor.layout() == at::kStrided && !at::isfinite(tensor).all().item<bool>())
      names.push_back(entry.key().toStringRef());
  if (names.empty())
    return;
  constexpr size_t kMostNames = 3;
  printWarning(fmt::format("not finite after the training: {}; a skipped step keeps what its "
                           "forwards write, such as running statistics: leave the samples of that "
                           "step out, or continue from a checkpoint before it",
                           someOf(names, kMostNames)));
}

llvm::Error writeResults(const TrainOptions &options, const std::string &output,
                         const Trainer &trainer) {
  llvm::Error gradients = options.emitGrads.empty()
                              ? llvm::Error::success()
                              : writeValue(options.emitGrads, trainer.gradients());
  llvm::Error state = output.empty() ? llvm::Error::success() : writeValue(output, trainer.state());
  if (!output.empty() && !state)
    warnOfUnsaved(trainer, output);
  return llvm::joinErrors(std::move(state), std::move(gradients));
}

llvm::Error runTraining(const TrainOptions &options, const TrainTarget &target,
                        const Trainer &trainer, RunReport &report) {
  StepSource source = options.source;
  source.inputs = target.inputs;
  source.isArtifact = target.isArtifact;
  TrainSteps steps = TRY(TrainSteps::read(trainer, source, target.seed.value_or(0)));
  const int64_t count = steps.count();
  TRY(checkMicroBatches(steps.batches(), source, target));
  TRY(checkLastBatch(trainer, steps, source));
  noteWithoutOptimizer(options, !target.output.empty() || TrainCheckpoints::areWritten());
  if (!target.output.empty() || TrainCheckpoints::areWritten())
    TRY(checkState(trainer, target.output.empty() ? "--checkpoint" : "--output"));
  if (!options.lrSchedule.empty())
    TRY(trainer.setLearningRates(options.lrSchedule, count));
  std::optional<EvalRuns> evaluations = TRY(readEvaluations(options, trainer));
  TrainCheckpoints checkpoints(trainer);
  const int64_t first = TRY(checkpoints.begin(steps.batches(), target.seed));
  if (first >= count)
    TRY(noteComplete(options, target, first, count));
  if (evaluations)
    TRY(first < count ? evaluations->tryOut(trainer)
                      : evaluations->run(trainer, first, target.json));
  std::vector<double> losses;
  std::optional<TrainingProgress> progress;
  if (!target.json)
    progress.emplace(first, count);
  for (int64_t step = first; step < count; ++step) {
    const double loss = TRY(runStep(options, steps, step, trainer, target.json, report));
    losses.push_back(loss);
    if (progress)
      progress->note(step + 1);
    const bool isDue = options.evalEvery > 0 && (step + 1) % options.evalEvery == 0;
    llvm::Error evaluated = evaluations && (isDue || step + 1 == count)
                                ? evaluations->run(trainer, step + 1, target.json)
                                : llvm::Error::success();
    if (llvm::Error saved = checkpoints.afterStep(step + 1, count, steps.batches()))
      return llvm::joinErrors(std::move(saved), std::move(evaluated));
    if (evaluated) { // the outputs are written although the evaluation failed
      evaluated =
          withContext(std::move(evaluated), fmt::format("evaluation after step {}", step + 1));
      return llvm::joinErrors(std::move(evaluated), writeResults(options, target.output, trainer));
    }
  }
  progress.reset();
  if (report.skippedSteps > 0)
    TRY(guardTorchVoid(ExitCode::Other, "the state of the training",
                       [&] { warnOfNotFinite(trainer); }));
  TRY(writeResults(options, target.output, trainer));
  noteTrainOptions(report.options);
  report.options["replicas"] = target.replicas;
  report.options["steps"] = count;
  checkpoints.note(report.options);
  report.losses = std::move(losses);
  if (evaluations)
    report.evaluations = evaluations->takeLines();
  return llvm::Error::success();
}

/// Why weights may differ by more than the tolerance of their dtype.
void noteSharedWeights(const Plan &plan) {
  const auto summed = llvm::count_if(
      plan.training->parameters, [](const TrainedParameter &each) { return each.uses.size() > 1; });
  if (summed > 0)
    printNote(fmt::format("{} in several stages, whose gradients are summed in another order than "
                          "in the unsplit model; optimizers such as Adam make more of a rounding, "
                          "so compare after few steps, with SGD, or with --rtol and --atol",
                          summed == 1 ? "one weight is" : fmt::format("{} weights are", summed)));
}

TrainTarget targetOf(const RunCommand &command, const Runner &runner) {
  TrainTarget target;
  target.isArtifact = command.isArtifact;
  target.inputs = command.inputs;
  target.output = command.output;
  target.seed = command.seed;
  target.replicas = runner.replicas;
  target.microBatches = command.microBatches       ? *command.microBatches * runner.replicas
                        : runner.fixedMicroBatches ? runner.fixedMicroBatches
                        : runner.replicas > 1      ? runner.replicas // one each at least
                                                   : 0;
  target.json = command.json;
  target.hasTrace = command.trace != nullptr;
  return target;
}

} // namespace

llvm::Error trainAll(const RunCommand &command, const Runner &runner,
                     const std::optional<c10::IValue> &expected, RunReport &report) {
  if (expected && !expected->isGenericDict())
    return makeError(ExitCode::Usage,
                     fmt::format("--expect: expected parameters and buffers by name, got {}",
                                 describedKind(*expected)),
                     "write the file with --output of another training, as of the unsplit model");
  TRY(runTraining(*command.training, targetOf(command, runner), *runner.trainer, report));
  if (command.training->training.verifySplit)
    noteVerified(runner.plan());
  for (const std::string &note : runner.notes())
    printNote(note);
  report.microBatches = runner.microBatches();
  const StepSource &source = command.training->source;
  if (!source.presplit && source.accumulate == 1 && !report.durationsNs.empty())
    noteMicroBatches(command, runner, report.samples, {});
  noteOptions(command, report);
  report.peakMemoryBytes = runner.peakMemory();
  TRY(noteTimes(command, runner, report));
  if (expected)
    report.comparison =
        compare(*expected, runner.trainer->state(), command.rtol, command.atol, "state");
  if (expected && !report.comparison->equal && runner.plan)
    noteSharedWeights(runner.plan());
  if (command.json)
    printJson(report, toStdout());
  else if (!report.durationsNs.empty())
    printText(report, toStdout());
  return llvm::Error::success();
}

} // namespace pipec
