#include "tools/run/TrainCommand.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "runtime/training/LearningRates.h"
#include "tools/cli/CommandLine.h"
#include "tools/report/Table.h"
#include "tools/run/EvalRuns.h"
#include "tools/run/StepLines.h"
#include "tools/run/TrainCheckpoints.h"
#include "tools/run/TrainingBatches.h"

#include <ATen/core/Dict.h>

#include <filesystem>

namespace pipec {

namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("training");
FlagOption train("train",
                 cl::desc("train instead of infer: an artifact compiled with --train, or a .pt as "
                          "the reference; the training flags of all modules of a .pt become true"),
                 cl::cat(category));
StringOption targets("targets",
                     cl::desc("with --train: more arguments of the model, after those of --inputs"),
                     cl::value_desc("FILE|TEXT"), cl::cat(category));
StringOption data("data",
                  cl::desc("with --train: samples instead of --inputs, a file with a pair (inputs, "
                           "targets) written by torch.save; each step takes the next --batch"),
                  cl::value_desc("FILE"), cl::cat(category));
IntegerOption batch("batch", cl::desc("with --data: samples of a step"), cl::value_desc("N"),
                    cl::cat(category));
IntegerOption epochs("epochs", cl::desc("with --data: how often each sample is used (default: 1)"),
                     cl::value_desc("N"), cl::init(1), cl::cat(category));
FlagOption shuffle("shuffle",
                   cl::desc("with --data: another order in each epoch, drawn from --seed"),
                   cl::cat(category));
IntegerOption steps("steps",
                    cl::desc("with --train: number of steps (default: 1, or those of --epochs)"),
                    cl::value_desc("N"), cl::cat(category));
IntegerOption accumulate("accumulate",
                         cl::desc("with --train: one step takes N batches, whose gradients add up "
                                  "before the optimizer updates the weights (default: 1)"),
                         cl::value_desc("N"), cl::init(1), cl::cat(category));
FlagOption presplit("presplit",
                    cl::desc("with --train: the file of --inputs is a list with the arguments of "
                             "each micro-batch of a step, whose sizes may differ"),
                    cl::cat(category));
StringOption evalData("eval-data",
                      cl::desc("with --train: samples for evaluations, a file as that of --data: "
                               "the loss in eval mode, with dropout off, after the last step"),
                      cl::value_desc("FILE"), cl::cat(category));
IntegerOption evalEvery("eval-every",
                        cl::desc("with --eval-data: evaluate after every N-th step, too"),
                        cl::value_desc("N"), cl::cat(category));
StringOption
    evalArtifact("eval-artifact",
                 cl::desc("with --eval-data and an artifact compiled without --evaluation: "
                          "the same model compiled with --infer; it computes with the "
                          "weights that are trained"),
                 cl::value_desc("MODEL.pipe"), cl::cat(category));
StringOption
    optimizer("optimizer",
              cl::desc("with --train: what updates the weights, with PyTorch's names and defaults "
                       "(default: none, only gradients are computed)"),
              cl::value_desc("sgd|adam|adamw|rmsprop|adagrad[,lr=X,...]"), cl::cat(category));
StringListOption group("group",
                       cl::desc("with --optimizer: parameters with other settings of it; * in a "
                                "name stands for any characters, the first group that matches a "
                                "parameter counts"),
                       cl::value_desc("NAME,lr=X,..."), cl::cat(category));
StringOption lrSchedule("lr-schedule",
                        cl::desc("with --optimizer: how its learning rate changes (default: "
                                 "constant)"),
                        cl::value_desc("cosine|linear|step|constant[,warmup=N,...]"),
                        cl::cat(category));
NumberOption clipNorm("clip-norm",
                      cl::desc("with --optimizer: the norm of all gradients together is at most X"),
                      cl::value_desc("X"), cl::cat(category));
StringListOption freeze("freeze",
                        cl::desc("with --train: parameters that are not trained; * in a name "
                                 "stands for any characters"),
                        cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(category));
StringOption
    onNan("on-nan",
          cl::desc("with --train: stop with exit 11 where a loss or gradient is not "
                   "finite, or skip the update of such a step, but stop at the N-th in a row "
                   "(default: stop)"),
          cl::value_desc("stop|skip[:N]"), cl::init("stop"), cl::cat(category));
StringOption batchNorm(
    "batch-norm",
    cl::desc("with --train: batch norms update their running statistics in each micro-batch, or "
             "deferred: once per step, from all its micro-batches together (default: "
             "per-micro-batch)"),
    cl::value_desc("per-micro-batch|deferred"), cl::init("per-micro-batch"), cl::cat(category));
StringOption
    verifyOption("verify",
                 cl::desc("with --train: run compares, before the first step, the gradients of "
                          "split backwards (I and W) with those of whole ones (B), per stage, "
                          "on the first micro-batch (default: none)"),
                 cl::value_desc("none|run"), cl::init("none"), cl::cat(category));
StringOption precision(
    "precision",
    cl::desc("with --train: what operators compute in. bf16: bfloat16 where PyTorch's autocast has "
             "it; weights, gradients and optimizer stay float32 (default: f32)"),
    cl::value_desc("f32|bf16"), cl::init("f32"), cl::cat(category));
StringOption reduction("loss-reduction",
                       cl::desc("with --train: the loss of a batch is the mean of those of the "
                                "micro-batches, weighted by samples, or their sum (default: mean); "
                                "a loss (sum, count) is weighted by its counts and takes none"),
                       cl::value_desc("mean|sum"), cl::init("mean"), cl::cat(category));
StringOption loss("loss",
                  cl::desc("with --train of a .pt: the loss in this file takes the model's results "
                           "and then targets, as pipe-compile --loss compiles it"),
                  cl::value_desc("LOSS.pt"), cl::cat(category));
StringOption lossOutput("loss-output",
                        cl::desc("with --train of a .pt that returns more than its loss: which "
                                 "result is the loss, or PATH,PATH for a sum and its count"),
                        cl::value_desc("PATH"), cl::cat(category));
StringOption emitGrads("emit-grads",
                       cl::desc("with --train: write the gradients of the last step, before "
                                "clipping, as a dict by parameter"),
                       cl::value_desc("FILE"), cl::cat(category));

llvm::Error atLeastOne(const IntegerOption &option) {
  return !given(option) || option.getValue() >= 1
             ? llvm::Error::success()
             : failf(ExitCode::Usage, "{}: expected at least 1, got {}",
                     spelledOption(option.ArgStr), option.getValue().value);
}

llvm::Error checkPrecision() {
  if (precision == "f32" || precision == "bf16")
    return llvm::Error::success();
  const bool isHalf = llvm::StringRef(precision.getValue()).contains("16") || precision == "half";
  return makeError(ExitCode::Usage,
                   "--precision: expected f32 or bf16, got " + precision.getValue(),
                   isHalf ? "float16 needs losses to be scaled, which this version does not do; "
                            "bf16 does not need it"
                          : "");
}

llvm::Expected<std::pair<OnNan, int64_t>> readOnNan() {
  auto [word, number] = llvm::StringRef(onNan.getValue()).split(':');
  int64_t most = 0;
  const bool hasNumber = llvm::StringRef(onNan.getValue()).contains(':');
  if (word == "stop" && !hasNumber)
    return std::pair(OnNan::Stop, most);
  if (word != "skip" || (hasNumber && (number.getAsInteger(10, most) || most < 1)))
    return failf(ExitCode::Usage, "--on-nan: expected stop, skip or skip:N, got {}",
                 onNan.getValue());
  return std::pair(OnNan::Skip, most);
}

void noteOptions(llvm::json::Object &options, int64_t count) {
  options["train"] = true;
  options["steps"] = count;
  options["on_nan"] = onNan.getValue();
  options["batch_norm"] = batchNorm.getValue();
  options["precision"] = precision.getValue();
  options["accumulate"] = accumulate.getValue().value;
  options["presplit"] = presplit.getValue();
  options["freeze"] = llvm::json::Array(freeze);
  options["groups"] = llvm::json::Array(group);
  const std::pair<const char *, const StringOption &> texts[] = {
      {"targets", targets},          {"data", data},          {"optimizer", optimizer},
      {"lr_schedule", lrSchedule},   {"loss", loss},          {"loss_output", lossOutput},
      {"emit_grads", emitGrads},     {"eval_data", evalData}, {"eval_artifact", evalArtifact},
      {"loss_reduction", reduction}, {"verify", verifyOption}};
  for (const auto &[name, option] : texts)
    if (given(option))
      options[name] = option.getValue();
  if (given(clipNorm))
    options["clip_norm"] = clipNorm.getValue().value;
  if (given(evalEvery))
    options["eval_every"] = evalEvery.getValue().value;
  if (given(batch))
    options["batch"] = batch.getValue().value;
  if (given(data)) {
    options["epochs"] = epochs.getValue().value;
    options["shuffle"] = shuffle.getValue();
  }
}

llvm::Expected<Arguments> argumentsOf(const std::string &inputs) {
  if (given(data))
    return readSamples(data);
  Arguments all;
  for (const std::string &text : {inputs, targets.getValue()}) {
    if (text.empty())
      continue;
    Arguments part = TRY(argumentsFromOption(text));
    all.positional.insert(all.positional.end(), part.positional.begin(), part.positional.end());
    all.keyword.insert(all.keyword.end(), part.keyword.begin(), part.keyword.end());
  }
  return all;
}

/// What a step runs on, one after the other.
using Given = llvm::Expected<Trainer::Batches>;

/// The elements of a list in a file, each the arguments of one micro-batch.
Given readPresplit(const Trainer &trainer, const std::string &path) {
  c10::IValue value = TRY(readValue(path));
  std::vector<c10::IValue> elements;
  if (value.isList())
    elements = value.toListRef().vec();
  else if (value.isTuple())
    elements = value.toTupleRef().elements().vec();
  else
    return failf(ExitCode::Usage,
                 "--presplit: expected a list with the arguments of each micro-batch in {}, got a "
                 "{}",
                 path, value.tagKind());
  Trainer::Batches all;
  for (size_t k = 0; k < elements.size(); ++k) {
    Arguments arguments = TRY(argumentsOfValue(fmt::format("micro-batch {}", k), elements[k]));
    llvm::Expected<std::vector<c10::IValue>> bound = trainer.bind(arguments);
    if (!bound)
      return withContext(bound.takeError(), fmt::format("micro-batch {}", k));
    all.push_back(std::move(*bound));
  }
  return all;
}

llvm::Expected<TrainingBatches> batchesFor(const Trainer &trainer, const std::string &inputs,
                                           uint64_t seed) {
  Arguments arguments = TRY(argumentsOf(inputs));
  std::vector<c10::IValue> values = TRY(trainer.bind(arguments));
  if (!given(data))
    return TrainingBatches::fixed(std::move(values));
  return TrainingBatches::cut(trainer.signature(), std::move(values), batch, shuffle, seed);
}

/// All that the steps of a run need.
struct Work {
  TrainingBatches batches;   // nothing with --presplit
  Trainer::Batches presplit; // the same in every step
  int64_t steps = 1;
  int64_t last = 0; // batches in all; 0: as many as the steps take

  Trainer::Batches of(int64_t step) const {
    return pipec::presplit ? presplit : batches.batches(step, accumulate, last);
  }
};

llvm::Expected<Work> workFor(const Trainer &trainer, const std::string &inputs, uint64_t seed) {
  Work work;
  if (presplit) {
    Given read = readPresplit(trainer, inputs);
    if (!read)
      return read.takeError();
    work.presplit = std::move(*read);
    work.batches = TrainingBatches::fixed({});
  } else {
    work.batches = TRY(batchesFor(trainer, inputs, seed));
  }
  if (given(data) && !given(steps)) {
    work.last = epochs.getValue().value * work.batches.stepsPerEpoch();
    work.steps = (work.last + accumulate - 1) / accumulate;
  } else if (given(steps)) {
    work.steps = steps.getValue().value;
  }
  work.batches.setGroup(accumulate);
  return work;
}

/// Nothing is left to do. Errors: Usage where a result of a step was asked for.
llvm::Error sayComplete(int64_t done, int64_t count) {
  if (given(emitGrads))
    return makeError(ExitCode::Usage,
                     fmt::format("--emit-grads: expected a step to run, got none: the checkpoint "
                                 "is of step {}, and {} are asked for",
                                 done, count),
                     "pass more --steps or --epochs");
  printNote(fmt::format("the training is complete: the checkpoint is of step {}, and {} are asked "
                        "for; --steps counts those before a resume, too",
                        done, count));
  return llvm::Error::success();
}

} // namespace

llvm::Expected<bool> TrainCommand::isWanted(bool hasInputs, bool replaces) {
  cl::Option *const ofTraining[] = {&targets,      &data,
                                    &batch,        &epochs,
                                    &shuffle,      &steps,
                                    &optimizer,    &lrSchedule,
                                    &clipNorm,     std::addressof(freeze),
                                    &onNan,        &reduction,
                                    &loss,         &lossOutput,
                                    &emitGrads,    &evalData,
                                    &evalEvery,    &evalArtifact,
                                    &accumulate,   &presplit,
                                    &precision,    &batchNorm,
                                    &verifyOption, std::addressof(group)};
  std::vector<const cl::Option *> all(std::begin(ofTraining), std::end(ofTraining));
  llvm::append_range(all, TrainCheckpoints::options());
  for (const cl::Option *option : all)
    if (!train && given(*option))
      return failf(ExitCode::Usage, "{}: expected --train with it, got none",
                   spelledOption(option->ArgStr));
  if (!train)
    return false;
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&evalEvery), static_cast<cl::Option *>(&evalArtifact)})
    if (given(*option) && !given(evalData))
      return failf(ExitCode::Usage, "{}: expected --eval-data with it, got none",
                   spelledOption(option->ArgStr));
  TRY(TrainCheckpoints::checkOptions());
  for (const IntegerOption *option : {&batch, &epochs, &steps, &accumulate, &evalEvery})
    TRY(atLeastOne(*option));
  if (given(data) && !given(batch))
    return makeError(ExitCode::Usage, "--data: expected --batch with it, got none",
                     "pass the number of samples of a step");
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&epochs), static_cast<cl::Option *>(&shuffle)})
    if (given(*option) && !given(data))
      return failf(ExitCode::Usage, "{}: expected --data with it, got none",
                   spelledOption(option->ArgStr));
  if (given(batch) && !given(data) && !given(evalData))
    return makeError(ExitCode::Usage, "--batch: expected --data or --eval-data with it, got none");
  if (given(data) && hasInputs)
    return makeError(ExitCode::Usage, "--data: expected it without --inputs, got both",
                     "the file of --data holds a pair (inputs, targets)");
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&data), static_cast<cl::Option *>(&targets),
        static_cast<cl::Option *>(&accumulate)})
    if (presplit && given(*option))
      return failf(ExitCode::Usage, "--presplit: expected it without {}, got both",
                   spelledOption(option->ArgStr));
  if (presplit && !hasInputs)
    return makeError(ExitCode::Usage, "--presplit: expected --inputs with it, got none");
  if (given(data) && given(targets))
    return makeError(ExitCode::Usage, "--targets: expected it without --data, got both",
                     "the file of --data holds a pair (inputs, targets)");
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&lrSchedule), static_cast<cl::Option *>(&clipNorm),
        static_cast<cl::Option *>(std::addressof(group))})
    if (given(*option) && !given(optimizer))
      return failf(ExitCode::Usage, "{}: expected --optimizer with it, got none",
                   spelledOption(option->ArgStr));
  if (given(clipNorm) && !(clipNorm > 0))
    return failf(ExitCode::Usage, "--clip-norm: expected more than 0, got {}",
                 clipNorm.getValue().value);
  std::error_code ignored;
  if (given(emitGrads) && !replaces && std::filesystem::exists(emitGrads.getValue(), ignored))
    return makeError(ExitCode::Usage,
                     "--emit-grads: expected a new file, got " + emitGrads + ", which exists",
                     "pass --force to replace it");
  if (reduction != "mean" && reduction != "sum")
    return failf(ExitCode::Usage, "--loss-reduction: expected mean or sum, got {}",
                 reduction.getValue());
  if (batchNorm != "per-micro-batch" && batchNorm != "deferred")
    return failf(ExitCode::Usage, "--batch-norm: expected per-micro-batch or deferred, got {}",
                 batchNorm.getValue());
  if (verifyOption != "none" && verifyOption != "run")
    return failf(ExitCode::Usage, "--verify: expected none or run, got {}",
                 verifyOption.getValue());
  TRY(checkPrecision());
  return true;
}

llvm::Expected<TrainingOptions> TrainCommand::options() {
  std::pair<OnNan, int64_t> nan = TRY(readOnNan());
  TrainingOptions options;
  options.optimizer = optimizer;
  options.clipNorm = clipNorm;
  options.keepGradients = given(emitGrads);
  options.freeze = freeze;
  options.groups = group;
  if (given(reduction))
    options.reduction = reduction == "sum" ? LossReduction::Sum : LossReduction::Mean;
  options.batchNorm = batchNorm == "deferred" ? BatchNorm::Deferred : BatchNorm::PerMicroBatch;
  options.precision = precision == "bf16" ? Precision::Bf16 : Precision::Full;
  options.verifySplit = verifyOption == "run";
  options.onNan = nan.first;
  options.mostSkipped = nan.second;
  options.lossOutput = lossOutput;
  return options;
}

std::string TrainCommand::evaluationFor(const std::string &artifact) {
  if (!given(evalData))
    return "";
  return given(evalArtifact) ? evalArtifact.getValue() : artifact;
}

std::string TrainCommand::lossFile() { return loss; }

llvm::Error TrainCommand::checkModelKind(bool isArtifact) {
  if (!isArtifact && verifyOption == "run")
    return makeError(ExitCode::Usage,
                     "--verify run: expected an artifact, got a .pt, which has no stages",
                     "leave it out, or compile the model first");
  if (!isArtifact && given(evalArtifact))
    return makeError(ExitCode::Usage, "--eval-artifact: expected an artifact to train, got a .pt",
                     "leave it out: a .pt is evaluated itself");
  return llvm::Error::success();
}

llvm::Error TrainCommand::run(const Trainer &trainer, const std::string &inputs,
                              const std::string &output, std::optional<uint64_t> seed,
                              int64_t microBatches, bool json, RunReport &report) {
  Work work = TRY(workFor(trainer, inputs, seed.value_or(0)));
  const int64_t count = work.steps;
  if (work.batches.leastSamples() > 0 && microBatches > work.batches.leastSamples())
    return makeError(ExitCode::Usage,
                     fmt::format("--microbatches: expected at most {}, the samples of the smallest "
                                 "batch of --data, got {}",
                                 work.batches.leastSamples(), microBatches),
                     "choose --batch so that the last batch of an epoch has enough samples");
  if (given(lrSchedule))
    TRY(trainer.setLearningRates(lrSchedule, count));
  std::optional<EvalRuns> evaluations;
  if (given(evalData)) {
    llvm::Expected<EvalRuns> read =
        EvalRuns::read(trainer, evalData, given(batch) ? batch.getValue().value : 0,
                       reduction == "sum" ? LossReduction::Sum : LossReduction::Mean);
    if (!read)
      return withContext(read.takeError(), "--eval-data");
    evaluations = std::move(*read);
  }
  TrainCheckpoints checkpoints(trainer);
  int64_t first = TRY(checkpoints.begin(work.batches, seed));
  if (first >= count)
    TRY(sayComplete(first, count));
  llvm::json::Array losses;
  std::optional<TrainingProgress> progress;
  if (!json)
    progress.emplace(first, count);
  for (int64_t step = first; step < count; ++step) {
    Given values = guardTorch(ExitCode::Usage, "taking a batch", [&] { return work.of(step); });
    if (!values)
      return values.takeError();
    StepStats stats;
    llvm::Expected<TrainedStep> done = presplit ? trainer.stepOnMicroBatches(*values, stats)
                                                : trainer.stepOnBatches(*values, stats);
    if (!done)
      return withContext(done.takeError(), fmt::format("step {}", step + 1));
    StepLine line{step + 1, count, *done, stats.makespanNs, 0, given(optimizer)};
    for (const std::vector<c10::IValue> &batch : *values)
      line.samples += batchSizeOr(0, trainer.signature(), batch);
    json ? printJsonLine(line) : printLine(line);
    losses.push_back(numberOrNull(done->loss));
    if (progress)
      progress->note(step + 1);
    report.samples = line.samples;
    report.durationsNs.push_back(stats.makespanNs);
    report.steps.push_back(std::move(stats));
    const bool isDue = given(evalEvery) && (step + 1) % evalEvery.getValue().value == 0;
    if (evaluations && (isDue || step + 1 == count))
      if (llvm::Error error = evaluations->run(trainer, step + 1, json))
        return withContext(std::move(error), fmt::format("evaluation after step {}", step + 1));
    TRY(checkpoints.afterStep(step + 1, count, work.batches));
  }
  progress.reset();
  if (given(emitGrads))
    TRY(writeValue(emitGrads, trainer.gradients()));
  if (!output.empty())
    TRY(writeValue(output, trainer.state()));
  noteOptions(report.options, count);
  checkpoints.note(report.options);
  report.losses = std::move(losses);
  if (evaluations)
    report.evaluations = evaluations->takeLines();
  return llvm::Error::success();
}

} // namespace pipec
