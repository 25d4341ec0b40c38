#include "tools/run/TrainOptions.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/Replicas.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/OutputFile.h"
#include "tools/run/TrainCheckpoints.h"

#include <limits>

namespace pipec {

namespace cl = llvm::cl;

namespace {

cl::OptionCategory trainCategory("training");
FlagOption train("train",
                 cl::desc("train instead of infer: an artifact compiled with --train, or a .pt as "
                          "the reference; the training flags of all modules of a .pt become true"),
                 cl::cat(trainCategory));
StringOption targets("targets",
                     cl::desc("with --train: more arguments of the model, after those of --inputs"),
                     cl::value_desc("FILE|TEXT"), cl::cat(trainCategory));
StringOption data("data",
                  cl::desc("with --train: samples instead of --inputs, a file with a pair (inputs, "
                           "targets) written by torch.save; each step takes the next --batch"),
                  cl::value_desc("FILE"), cl::cat(trainCategory));
IntegerOption batch("batch", cl::desc("with --data or --eval-data: samples of a step"),
                    cl::value_desc("N"), cl::cat(trainCategory));
IntegerOption epochs("epochs", cl::desc("with --data: how often each sample is used (default: 1)"),
                     cl::value_desc("N"), cl::init(1), cl::cat(trainCategory));
FlagOption shuffle("shuffle",
                   cl::desc("with --data: another order in each epoch, drawn from --seed"),
                   cl::cat(trainCategory));
FlagOption dropLast("drop-last",
                    cl::desc("with --data: leave the last batch of an epoch out if it has fewer "
                             "samples than --batch"),
                    cl::cat(trainCategory));
IntegerOption steps("steps",
                    cl::desc("with --train: number of steps (default: 1, or those of --epochs)"),
                    cl::value_desc("N"), cl::cat(trainCategory));
IntegerOption accumulate("accumulate",
                         cl::desc("with --train: one step takes N batches, whose gradients add up "
                                  "before the optimizer updates the weights (default: 1)"),
                         cl::value_desc("N"), cl::init(1), cl::cat(trainCategory));
StringOption
    replicas("replicas",
             cl::desc("with --train of an artifact: D copies of the pipeline, each with threads of "
                      "its own, share the micro-batches of a step; auto: as many as there are "
                      "cores, or devices, for; --microbatches is the number of each (default: 1)"),
             cl::value_desc("D|auto"), cl::init("1"), cl::cat(trainCategory));
FlagOption presplit("presplit",
                    cl::desc("with --train: the file of --inputs is a list with the arguments of "
                             "each micro-batch of a step, whose sizes may differ"),
                    cl::cat(trainCategory));
StringOption evalData("eval-data",
                      cl::desc("with --train: samples for evaluations, a file as that of --data: "
                               "the loss in eval mode, with dropout off, after the last step"),
                      cl::value_desc("FILE"), cl::cat(trainCategory));
IntegerOption evalEvery("eval-every",
                        cl::desc("with --eval-data: evaluate after every N-th step, too"),
                        cl::value_desc("N"), cl::cat(trainCategory));
StringOption
    evalArtifact("eval-artifact",
                 cl::desc("with --eval-data and an artifact compiled without --evaluation: "
                          "the same model compiled with --infer; it computes with the "
                          "weights that are trained"),
                 cl::value_desc("MODEL.pipe"), cl::cat(trainCategory));
StringOption
    optimizer("optimizer",
              cl::desc("with --train: what updates the weights, with PyTorch's names and defaults "
                       "(default: none, only gradients are computed)"),
              cl::value_desc("sgd|adam|adamw|rmsprop|adagrad[,lr=X,...]"), cl::cat(trainCategory));
StringListOption group("group",
                       cl::desc("with --optimizer: parameters with other settings of it; * in a "
                                "name stands for any characters, the first group that matches a "
                                "parameter counts"),
                       cl::value_desc("NAME,lr=X,..."), cl::cat(trainCategory));
StringOption lrSchedule("lr-schedule",
                        cl::desc("with --optimizer: how its learning rate changes (default: "
                                 "constant)"),
                        cl::value_desc("cosine|linear|step|constant[,warmup=N,...]"),
                        cl::cat(trainCategory));
NumberOption clipNorm("clip-norm",
                      cl::desc("with --optimizer: the norm of all gradients together is at most X"),
                      cl::value_desc("X"), cl::cat(trainCategory));
StringListOption freeze("freeze",
                        cl::desc("with --train: parameters that are not trained; * in a name "
                                 "stands for any characters"),
                        cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(trainCategory));
StringOption
    onNan("on-nan",
          cl::desc("with --train: stop with exit 11 where a loss or gradient is not "
                   "finite, or skip the update of such a step, but stop at the N-th in a row "
                   "(default: stop)"),
          cl::value_desc("stop|skip[:N]"), cl::init("stop"), cl::cat(trainCategory));
StringOption batchNorm(
    "batch-norm",
    cl::desc("with --train: batch norms update their running statistics in each micro-batch, or "
             "deferred: once per step, from all its micro-batches together (default: "
             "per-micro-batch)"),
    cl::value_desc("per-micro-batch|deferred"), cl::init("per-micro-batch"),
    cl::cat(trainCategory));
StringOption
    verifyOption("verify",
                 cl::desc("with --train: run compares, before the first step, the gradients of "
                          "split backwards (I and W) with those of whole ones (B), per stage, "
                          "on the first micro-batch (default: none)"),
                 cl::value_desc("none|run"), cl::init("none"), cl::cat(trainCategory));
StringOption precision(
    "precision",
    cl::desc("with --train: what operators compute in. bf16: bfloat16 where PyTorch's autocast has "
             "it; weights, gradients and optimizer stay float32 (default: f32)"),
    cl::value_desc("f32|bf16"), cl::init("f32"), cl::cat(trainCategory));
StringOption reduction("loss-reduction",
                       cl::desc("with --train: the loss of a batch is the mean of those of the "
                                "micro-batches, weighted by samples, or their sum (default: mean); "
                                "a loss (sum, count) is weighted by its counts and takes none"),
                       cl::value_desc("mean|sum"), cl::init("mean"), cl::cat(trainCategory));
StringOption loss("loss",
                  cl::desc("with --train of a .pt: the loss in this file takes the model's results "
                           "and then targets, as pipe-compile --loss compiles it"),
                  cl::value_desc("LOSS.pt"), cl::cat(trainCategory));
StringOption lossOutput("loss-output",
                        cl::desc("with --train of a .pt that returns more than its loss: which "
                                 "result is the loss, or PATH,PATH for a sum and its count"),
                        cl::value_desc("PATH"), cl::cat(trainCategory));
StringOption emitGrads("emit-grads",
                       cl::desc("with --train: write the gradients of the last step, before "
                                "clipping, as a dict by parameter"),
                       cl::value_desc("FILE"), cl::cat(trainCategory));

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

/// 0: auto.
llvm::Expected<int64_t> readReplicas() {
  if (replicas == "auto")
    return 0;
  int64_t number = 0;
  if (llvm::StringRef(replicas).getAsInteger(10, number))
    return failf(ExitCode::Usage, "--replicas: expected a whole number or auto, got \"{}\"",
                 replicas.getValue());
  if (number < 1 || number > kMostRanks) // a replica has at least one rank
    return failf(ExitCode::Usage, "--replicas: expected at {} {}, got {}",
                 number < 1 ? "least" : "most", number < 1 ? 1 : kMostRanks, number);
  return number;
}

/// An option of a training without --train.
llvm::Error refuseWithoutTrain() {
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
                                    &verifyOption, std::addressof(group),
                                    &replicas,     &dropLast};
  std::vector<const cl::Option *> all(std::begin(ofTraining), std::end(ofTraining));
  llvm::append_range(all, TrainCheckpoints::options());
  for (const cl::Option *option : all)
    if (!train && given(*option))
      return failf(ExitCode::Usage, "{}: expected --train with it, got none",
                   spelledOption(option->ArgStr));
  return llvm::Error::success();
}

/// Errors: Usage for options that do not fit together, and for values that cannot be.
llvm::Error checkTraining(bool hasInputs, bool replaces) {
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&evalEvery), static_cast<cl::Option *>(&evalArtifact)})
    if (given(*option) && !given(evalData))
      return failf(ExitCode::Usage, "{}: expected --eval-data with it, got none",
                   spelledOption(option->ArgStr));
  TRY(TrainCheckpoints::checkOptions());
  for (const IntegerOption *option : {&batch, &epochs, &steps, &accumulate, &evalEvery})
    TRY(within(*option, 1, std::numeric_limits<int64_t>::max()));
  if (given(data) && !given(batch))
    return makeError(ExitCode::Usage, "--data: expected --batch with it, got none",
                     "pass the number of samples of a step");
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&epochs), static_cast<cl::Option *>(&shuffle),
        static_cast<cl::Option *>(&dropLast)})
    if (given(*option) && !given(data))
      return failf(ExitCode::Usage, "{}: expected --data with it, got none",
                   spelledOption(option->ArgStr));
  if (given(batch) && !given(data) && !given(evalData))
    return makeError(ExitCode::Usage, "--batch: expected --data or --eval-data with it, got none",
                     "the file of --inputs is one batch");
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
    return makeError(ExitCode::Usage, "--presplit: expected --inputs with it, got none",
                     "pass a file with a list of micro-batches");
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
  if (given(lossOutput))
    TRY(splitPaths("--loss-output", lossOutput).takeError());
  if (given(emitGrads))
    TRY(requireNewFile(emitGrads, replaces));
  if (reduction != "mean" && reduction != "sum")
    return failf(ExitCode::Usage, "--loss-reduction: expected mean or sum, got {}",
                 reduction.getValue());
  if (batchNorm != "per-micro-batch" && batchNorm != "deferred")
    return failf(ExitCode::Usage, "--batch-norm: expected per-micro-batch or deferred, got {}",
                 batchNorm.getValue());
  if (verifyOption != "none" && verifyOption != "run")
    return failf(ExitCode::Usage, "--verify: expected none or run, got {}",
                 verifyOption.getValue());
  return checkPrecision();
}

llvm::Expected<TrainingOptions> trainingOptions() {
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

StepSource stepSource() {
  StepSource source;
  source.targets = targets;
  source.data = data;
  source.presplit = presplit;
  source.batch = given(batch) ? batch.getValue().value : 0;
  source.epochs = epochs;
  source.shuffle = shuffle;
  source.dropLast = dropLast;
  if (given(steps))
    source.steps = steps.getValue().value;
  source.accumulate = accumulate;
  return source;
}

} // namespace

llvm::Expected<std::optional<TrainOptions>> readTrainOptions(bool hasInputs, bool replaces) {
  TRY(refuseWithoutTrain());
  if (!train)
    return std::nullopt;
  TRY(checkTraining(hasInputs, replaces));
  TrainOptions options;
  options.training = TRY(trainingOptions());
  options.source = stepSource();
  options.loss = loss;
  options.lrSchedule = lrSchedule;
  options.evalData = evalData;
  options.evalArtifact = evalArtifact;
  options.evalEvery = given(evalEvery) ? evalEvery.getValue().value : 0;
  options.emitGrads = emitGrads;
  options.replicas = TRY(readReplicas());
  return options;
}

llvm::Error checkTrainedModel(const TrainOptions &options, bool isArtifact) {
  if (isArtifact && !options.loss.empty())
    return makeError(ExitCode::Usage, "--loss: expected a .pt, got an artifact",
                     "an artifact keeps what pipe-compile --loss joined");
  if (isArtifact && !options.training.lossOutput.empty())
    return makeError(ExitCode::Usage, "--loss-output: expected a .pt, got an artifact",
                     "an artifact keeps what pipe-compile --loss-output chose");
  if (!isArtifact && given(replicas))
    return makeError(ExitCode::Usage, "--replicas: expected an artifact, got a .pt, which has none",
                     "leave it out, and pass the --microbatches of all replicas together");
  if (!isArtifact && options.training.verifySplit)
    return makeError(ExitCode::Usage,
                     "--verify run: expected an artifact, got a .pt, which has no stages",
                     "leave it out, or compile the model first");
  if (!isArtifact && !options.evalArtifact.empty())
    return makeError(ExitCode::Usage, "--eval-artifact: expected an artifact to train, got a .pt",
                     "leave it out: a .pt is evaluated itself");
  return llvm::Error::success();
}

void noteWithoutOptimizer(const TrainOptions &options, bool writesWeights) {
  const bool wantsGradients = !options.emitGrads.empty();
  const bool repeats = given(epochs) || steps > 1 || given(evalData);
  if (!options.training.updates() && !wantsGradients && (writesWeights || repeats))
    printNote("no --optimizer: weights stay as they are, only gradients are computed; to train, "
              "pass --optimizer, as in --optimizer sgd,lr=0.1");
}

void noteTrainOptions(llvm::json::Object &json) {
  json["train"] = true;
  json["on_nan"] = onNan.getValue();
  json["batch_norm"] = batchNorm.getValue();
  json["precision"] = precision.getValue();
  json["accumulate"] = accumulate.getValue().value;
  json["presplit"] = presplit.getValue();
  json["freeze"] = llvm::json::Array(freeze);
  json["groups"] = llvm::json::Array(group);
  const std::pair<const char *, const StringOption &> texts[] = {
      {"targets", targets},          {"data", data},          {"optimizer", optimizer},
      {"lr_schedule", lrSchedule},   {"loss", loss},          {"loss_output", lossOutput},
      {"emit_grads", emitGrads},     {"eval_data", evalData}, {"eval_artifact", evalArtifact},
      {"loss_reduction", reduction}, {"verify", verifyOption}};
  for (const auto &[name, option] : texts)
    if (given(option))
      json[name] = option.getValue();
  if (given(clipNorm))
    json["clip_norm"] = clipNorm.getValue().value;
  if (given(evalEvery))
    json["eval_every"] = evalEvery.getValue().value;
  if (given(batch))
    json["batch"] = batch.getValue().value;
  if (given(data)) {
    json["epochs"] = epochs.getValue().value;
    json["shuffle"] = shuffle.getValue();
    json["drop_last"] = dropLast.getValue();
  }
}

} // namespace pipec
