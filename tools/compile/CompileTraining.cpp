#include "tools/compile/CompileTraining.h"

#include "ir/schedule/Generators.h"
#include "ir/support/Llvm.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/report/Table.h"

namespace pipec {

namespace cl = llvm::cl;

namespace {

FlagOption train(
    "train",
    cl::desc("compile for training: loss and gradients of the stages are compared with the "
             "model's, and cuts if none are given, stages per rank, schedule, micro-batches, "
             "recomputation and shared weights are planned together, within the memory of the "
             "devices; the training flags of all modules become true. The model returns its loss; "
             "with --dry-run one without a loss is planned, too"),
    cl::cat(compileCategory));
StringOption
    loss("loss",
         cl::desc("compile for training with the loss in this file: a module whose forward "
                  "takes the model's results and then targets, which become further "
                  "arguments; with --infer in eval mode, for evaluations of such a training"),
         cl::value_desc("LOSS.pt"), cl::cat(compileCategory));
StringOption
    lossOutput("loss-output",
               cl::desc("compile for training with this result as the loss, one floating-point "
                        "number, or PATH,PATH for a sum and its count (default: the model's "
                        "only result, or the pair that test runs show to be one)"),
               cl::value_desc("PATH"), cl::cat(compileCategory));
FlagOption evaluation("evaluation",
                      cl::desc("with --train: the artifact also has stages in eval mode, for "
                               "pipe-run --eval-data; they have weights of their own on disk, and "
                               "none in memory"),
                      cl::cat(compileCategory));
StringOption schedule(
    "schedule",
    cl::desc("default schedule of the artifact (default: forward-only). auto chooses by cost which "
             "rank gets which stages and, if not given, the stages per rank and the number of "
             "micro-batches. A CSV file is a table of forward actions as pipe-schedule --csv "
             "writes it; it also sets stages, ranks and micro-batches. With --train: auto (the "
             "default) or a name from pipe-schedule --list"),
    cl::value_desc("forward-only|auto|NAME|FILE.csv"), cl::init("forward-only"),
    cl::cat(compileCategory));
IntegerOption batch("batch",
                    cl::desc("with --train: samples per step (default: two micro-batches per rank, "
                             "or --microbatches, each of the example's size)"),
                    cl::value_desc("B"), cl::cat(compileCategory));
StringOption recompute("recompute",
                       cl::desc("with --train: which stages run their forward again in the "
                                "backward: none, all, all but for the last micro-batch, those of "
                                "a list (default: auto, those for which memory is too small)"),
                       cl::value_desc("never|always|except-last|auto|I,J,..."), cl::init("auto"),
                       cl::cat(compileCategory));
StringOption splitBackward(
    "split-backward",
    cl::desc("with --train: off plans and runs the whole backward of every stage where a schedule "
             "has its I, and nothing where it has its W (default: on, where the schedule has both "
             "and the stage can)"),
    cl::value_desc("on|off"), cl::init("on"), cl::cat(compileCategory));

bool isScheduleTable() {
  return given(schedule) && (endsWith(schedule, ".csv") || llvm::sys::fs::exists(schedule));
}

std::string scheduleName() { return asNamedInTable(schedule.getValue()); }

llvm::Error readTable(CompileOptions &options) {
  TextFormat format;
  format.what = "a table of a schedule";
  format.code = ExitCode::Unreadable;
  llvm::Expected<std::string> csv = readTextFile(schedule, format);
  if (!csv)
    return withContext(csv.takeError(), "--schedule");
  if (csv->empty())
    return failf(ExitCode::Unreadable, "--schedule: {} is empty", schedule.getValue());
  options.schedule = ScheduleTable{std::move(*csv)};
  return llvm::Error::success();
}

/// The default schedule of an inference: by name, or a table.
llvm::Error readSchedule(CompileOptions &options) {
  if (isScheduleTable())
    return readTable(options);
  const std::string name = scheduleName();
  if (name == "auto")
    options.schedule = AutoSchedule();
  else if (name != "forward-only")
    return makeError(
        ExitCode::Usage,
        fmt::format("--schedule: expected forward-only, auto or a CSV file, got {}",
                    schedule.getValue()),
        findGenerator(name) ? name + " is a schedule of a training: pass --train with it" : "");
  return llvm::Error::success();
}

} // namespace

llvm::Error readTraining(const CompileContext &context, CompileOptions &options) {
  TRY(within(batch, 1, kMostMicroBatches));
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&batch), static_cast<cl::Option *>(&recompute),
        static_cast<cl::Option *>(&splitBackward), static_cast<cl::Option *>(&lossOutput),
        static_cast<cl::Option *>(std::addressof(evaluation))})
    if (given(*option) && !isTraining(context))
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected --train with it", spelledOption(option->ArgStr)));
  // With --infer: the loss in eval mode, for evaluations between the steps of a training.
  if (!train && context.infer)
    options.loss = loss;
  if (!isTraining(context))
    return readSchedule(options);
  if (context.infer)
    return makeError(ExitCode::Usage, "--train: expected it without --infer, got both",
                     "leave one of the two out");
  std::string nearest;
  const Generator *generator = findGenerator(scheduleName(), &nearest);
  const bool isTable = isScheduleTable();
  if (given(schedule) && schedule != "auto" && !isTable && (!generator || generator->inference))
    return makeError(
        ExitCode::Usage,
        fmt::format("--schedule: expected auto, a schedule of a training or a CSV file, "
                    "got {}",
                    schedule.getValue()),
        nearest.empty() ? "pipe-schedule --list names them" : "did you mean " + nearest + "?");
  options.recompute = TRY(recomputeFromText(recompute));
  if (splitBackward != "on" && splitBackward != "off")
    return failf(ExitCode::Usage, "--split-backward: expected on or off, got {}",
                 splitBackward.getValue());
  options.splitBackward = splitBackward == "on";
  options.mode = Mode::Train;
  options.batch = batch;
  options.evaluation = evaluation;
  if (context.recordsCase)
    return makeError(ExitCode::Usage,
                     "--record-case: expected a compile for inference, got --train",
                     "a case is a batch and its results; leave one of the two out");
  if (isTable) {
    TRY(readTable(options));
  } else if (given(schedule) && schedule != "auto") {
    options.schedule = NamedSchedule{scheduleName()};
  } else {
    options.schedule = AutoSchedule();
  }
  options.trainingFlag = TrainingFlag::True;
  options.loss = loss;
  if (given(lossOutput))
    TRY(splitPaths("--loss-output", lossOutput).takeError());
  options.lossOutput = lossOutput;
  options.planOnly = context.dryRun;
  return llvm::Error::success();
}

bool isTraining(const CompileContext &context) {
  return train || ((given(loss) || given(lossOutput)) && !context.infer);
}

bool hasTrainFlag() { return train; }

bool hasAutoSchedule() { return schedule == "auto"; }

void noteTraining(const CompileContext &context, llvm::json::Object &object) {
  object["train"] = isTraining(context);
  object["schedule"] = isTraining(context) && !given(schedule) ? "auto" : scheduleName();
  if (isTraining(context))
    object["recompute"] = recompute.getValue();
  if (given(splitBackward))
    object["split_backward"] = splitBackward.getValue();
  if (evaluation)
    object["evaluation"] = true;
  if (given(batch))
    object["batch"] = static_cast<int64_t>(batch);
  if (given(loss))
    object["loss"] = loss.getValue();
  if (given(lossOutput))
    object["loss_output"] = lossOutput.getValue();
}

} // namespace pipec
