// pipe-run: runs an artifact, or a plain TorchScript file as the reference that artifacts must
// equal.
#include "ir/TorchError.h"
#include "ir/artifact/ArtifactDir.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/schedule/Schedule.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/torchfile/JoinLoss.h"
#include "ir/values/Values.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "runtime/Reference.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/FreedMemory.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/PlanReport.h"
#include "tools/report/RunReport.h"
#include "tools/run/RunTimes.h"
#include "tools/run/TraceFile.h"
#include "tools/run/TrainCommand.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <limits>

using namespace pipec;
namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("pipe-run");
StringOption model(cl::Positional, cl::Required, cl::desc("MODEL.pipe|MODEL.pt"),
                   cl::cat(category));
StringOption inputsOption("inputs",
                          cl::desc("the whole batch: a file written by torch.save, or a "
                                   "description such as f32[8,3,224,224],i64[8,128]<30000"),
                          cl::value_desc("FILE|TEXT"), cl::cat(category));
IntegerOption microBatches("microbatches",
                           cl::desc("number of micro-batches (default: the plan's, or one per "
                                    "sample if the batch is smaller; 1 for a .pt)"),
                           cl::value_desc("M"), cl::cat(category));
StringOption
    schedule("schedule",
             cl::desc("schedule by name, or a CSV file (default: the plan's); with --train "
                      "any that pipe-schedule --list prints"),
             cl::value_desc("forward-only|NAME|FILE.csv"), cl::cat(category));
IntegerOption dynamic("dynamic",
                      cl::desc("run what is ready, with at most N micro-batches in flight in each "
                               "stage, instead of the schedule's order; same results"),
                      cl::value_desc("N"), cl::cat(category));
StringOption
    device("device",
           cl::desc("device for all ranks, or one per rank such as cuda:0,cuda:1 (default: cpu)"),
           cl::value_desc("cpu|cuda|cuda:N,..."), cl::cat(category));
IntegerOption threads("threads",
                      cl::desc("intra-op threads per rank; the last bits of results depend on it "
                               "(default: max(1, cores / ranks), with --train 1)"),
                      cl::value_desc("N"), cl::cat(category));
IntegerOption seed("seed", cl::desc("seed of the random operators (default: 0)"),
                   cl::value_desc("N"), cl::init(0), cl::cat(category));
StringOption method("method", cl::desc("method of a .pt (default: forward)"),
                    cl::value_desc("NAME"), cl::init("forward"), cl::cat(category));
StringListOption batchDim(
    "batch-dim",
    cl::desc(
        "batch dimensions of a .pt's arguments, where the test runs do not find the right ones"),
    cl::value_desc("NAME=K|none,..."), cl::CommaSeparated, cl::cat(category));
StringListOption merge("merge",
                       cl::desc("how the micro-batches' values of a .pt's result are merged, where "
                                "the test runs do not find the right rule; may be repeated"),
                       cl::value_desc("PATH=concat:K|join|sum|mean|list|same,..."),
                       cl::cat(category));
FlagOption infer("infer",
                 cl::desc("run a .pt in eval mode, as pipe-compile --infer compiles it (default: "
                          "the file's training flags)"),
                 cl::cat(category));
StringListOption
    keepEval("keep-eval",
             cl::desc("modules of a .pt to run in eval mode, regardless of the file's flags"),
             cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(category));
StringListOption libraries("load-library", cl::desc("load custom operators; may be repeated"),
                           cl::value_desc("LIB.so"), cl::cat(category));
StringOption output("output",
                    cl::desc("write the merged outputs to a file for torch.load; with --train the "
                             "parameters and buffers after the last step, a dict by name"),
                    cl::value_desc("FILE"), cl::cat(category));
StringOption trace("trace",
                   cl::desc("write the last step of an artifact for Perfetto or chrome://tracing: "
                            "every op of every rank with its time, and beside it what the "
                            "simulator makes of the measured times of the stages"),
                   cl::value_desc("FILE.json"), cl::cat(category));
FlagOption force("force", cl::desc("replace existing files of --output and --trace"),
                 cl::cat(category));
StringOption expect("expect", cl::desc("compare the outputs with a file; exit 7 if they differ"),
                    cl::value_desc("FILE"), cl::cat(category));
NumberOption rtol("rtol", cl::desc("relative tolerance (default: by dtype)"), cl::value_desc("X"),
                  cl::cat(category));
NumberOption atol("atol",
                  cl::desc("absolute tolerance (default: by dtype); both 0 means bit for bit"),
                  cl::value_desc("X"), cl::cat(category));
IntegerOption
    repeat("repeat",
           cl::desc("number of timed runs (default: 1); the outputs are those of the first run"),
           cl::value_desc("N"), cl::init(1), cl::cat(category));
IntegerOption warmup("warmup", cl::desc("number of runs before the timed ones (default: 0)"),
                     cl::value_desc("N"), cl::init(0), cl::cat(category));
FlagOption json("json", cl::desc("print one JSON document"), cl::cat(category));

/// A common interface of pipeline and reference.
struct Runner {
  std::function<llvm::Expected<c10::IValue>(const std::vector<c10::IValue> &, StepStats &)> infer;
  std::function<const Signature &()> signature;
  std::function<llvm::Expected<std::vector<c10::IValue>>(const Arguments &)> bind;
  std::function<std::vector<int64_t>()> peakMemory;
  std::function<std::vector<std::string>()> notes; // after a run
  std::optional<Trainer> trainer;                  // with --train
  std::function<int64_t()> microBatches;           // of the last run
  int64_t byDefault = 1;                           // micro-batches
  int64_t fixedMicroBatches = 0;                   // by a table; 0: any number
  /// Of an artifact: the times of the last steps, and its plan.
  std::shared_ptr<RunTimes> times = nullptr;
  std::function<const Plan &()> plan = nullptr;
};

constexpr int64_t kMany = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxThreads = 1024; // with more, LibTorch slows the machine down

llvm::Error within(const IntegerOption &option, llvm::StringRef name, int64_t least, int64_t most) {
  if (!given(option) || (option.getValue() >= least && option.getValue() <= most))
    return llvm::Error::success();
  return failf(ExitCode::Usage, "--{}: expected at {} {}, got {}", name.str(),
               option.getValue() < least ? "least" : "most",
               option.getValue() < least ? least : most, option.getValue().value);
}

std::vector<std::string> deviceList() {
  std::vector<std::string> names;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::StringRef(device).split(parts, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts)
    names.push_back(part.trim().str());
  return names;
}

llvm::Error checkOptions(bool isArtifact) {
  struct Range {
    const IntegerOption &option;
    llvm::StringRef name;
    int64_t least, most;
  };
  for (const Range &range : {Range{microBatches, "microbatches", 1, kMostMicroBatches},
                             Range{threads, "threads", 1, kMaxThreads},
                             Range{dynamic, "dynamic", 1, kMany}, Range{repeat, "repeat", 1, kMany},
                             Range{warmup, "warmup", 0, kMany}, Range{seed, "seed", 0, kMany}})
    TRY(within(range.option, range.name, range.least, range.most));
  if (!isArtifact && given(schedule))
    return makeError(ExitCode::Usage, "--schedule: expected an artifact, got a .pt, which has none",
                     "leave it out, or compile the model first");
  if (!isArtifact && given(dynamic))
    return makeError(ExitCode::Usage,
                     "--dynamic: expected an artifact, got a .pt, which has no stages",
                     "leave it out, or compile the model first");
  if (!isArtifact && given(trace))
    return makeError(ExitCode::Usage,
                     "--trace: expected an artifact, got a .pt, which has no ranks",
                     "leave it out, or compile the model first");
  if (given(trace))
    TRY(refuseExisting(trace, force));
  const std::pair<const char *, const cl::Option &> chosenByCompile[] = {{"method", method},
                                                                         {"batch-dim", batchDim},
                                                                         {"merge", merge},
                                                                         {"infer", infer},
                                                                         {"keep-eval", keepEval}};
  for (const auto &[name, option] : chosenByCompile)
    if (isArtifact && given(option))
      return makeError(ExitCode::Usage, fmt::format("--{}: expected a .pt, got an artifact", name),
                       fmt::format("an artifact keeps what pipe-compile --{} chose", name));
  TRY(TrainCommand::checkModelKind(isArtifact));
  if (isArtifact && !TrainCommand::lossFile().empty())
    return makeError(ExitCode::Usage, "--loss: expected a .pt, got an artifact",
                     "an artifact keeps what pipe-compile --loss joined");
  for (const NumberOption *option : {&rtol, &atol})
    if (given(*option) && !(*option >= 0))
      return failf(ExitCode::Usage, "{}: expected at least 0, got {}",
                   spelledOption(option->ArgStr), option->getValue().value);
  if (!given(expect) && (given(rtol) || given(atol)))
    return makeError(ExitCode::Usage, given(rtol) ? "--rtol: expected --expect with it, got none"
                                                  : "--atol: expected --expect with it, got none");
  std::error_code ignored;
  const auto folder = std::filesystem::path(output.getValue()).parent_path();
  if (given(output) && std::filesystem::exists(folder / "MANIFEST", ignored) &&
      std::filesystem::exists(folder / "plan.json", ignored))
    return makeError(
        ExitCode::Usage,
        fmt::format("--output: {} is inside an artifact, and a file added to it would damage it",
                    output.getValue()),
        "choose a path outside the artifact");
  if (given(device) && deviceList().empty())
    return failf(ExitCode::Usage, "--device: expected a device, got {}", device.getValue());
  if (given(output) && !force) {
    auto status = std::filesystem::symlink_status(output.getValue(), ignored);
    if (std::filesystem::is_symlink(status))
      return makeError(ExitCode::Usage,
                       "--output: expected a new file, got " + output + ", a symbolic link",
                       "pass --force to write the file that it names");
    if (std::filesystem::exists(status))
      return makeError(ExitCode::Usage,
                       "--output: expected a new file, got " + output + ", which exists",
                       "pass --force to replace it");
  }
  return llvm::Error::success();
}

/// Sets the schedule of the options from --schedule.
llvm::Error readSchedule(PipelineOptions &options, bool isTraining) {
  if (!given(schedule))
    return llvm::Error::success();
  if (!llvm::sys::fs::exists(schedule) && !endsWith(schedule, ".csv")) {
    if (schedule != "forward-only" && !isTraining)
      return failf(ExitCode::Usage, "--schedule: expected forward-only or a CSV file, got {}",
                   schedule.getValue());
    options.scheduleName = schedule;
    return llvm::Error::success();
  }
  auto buffer = llvm::MemoryBuffer::getFile(schedule);
  if (!buffer)
    return withContext(cannotRead(schedule, buffer.getError()), "--schedule");
  options.scheduleCsv = (*buffer)->getBuffer().str();
  if (options.scheduleCsv.empty())
    return failf(ExitCode::Usage, "--schedule: {} is empty", schedule.getValue());
  if (llvm::Expected<Schedule> rows = scheduleFromCsv(options.scheduleCsv); !rows) {
    ErrorText text = describe(rows.takeError());
    return makeError(ExitCode::Unreadable,
                     fmt::format("--schedule {}: {}", schedule.getValue(), text.message),
                     text.help);
  }
  return llvm::Error::success();
}

/// The last call of `pipeline` has succeeded.
llvm::Error noteTimes(const Pipeline &pipeline, RunTimes &times) {
  RunTrace run = TRY(pipeline.trace());
  times.add(std::move(run));
  return llvm::Error::success();
}

template <typename Trained> Trainer trainerOf(std::shared_ptr<Trained> trained) {
  return {[trained](const Trainer::Batches &batches, StepStats &stats) {
            return trained->stepOnBatches(batches, &stats);
          },
          [trained](const Trainer::Batches &cut, StepStats &stats) {
            return trained->stepOnMicroBatches(cut, &stats);
          },
          [trained](const std::string &text, int64_t steps) {
            return trained->setLearningRates(text, steps);
          },
          [trained](const std::vector<c10::IValue> &values) { return trained->evaluate(values); },
          [trained] { return c10::IValue(trained->gradients().ivalue()); },
          [trained] { return c10::IValue(trained->state().ivalue()); },
          {},
          {},
          [trained](const std::string &directory, const CheckpointOptions &options) {
            return trained->saveCheckpoint(directory, options);
          },
          [trained](const std::string &path, bool passOverDamaged) {
            return trained->resume(path, passOverDamaged);
          }};
}

llvm::Expected<Runner> pipelineRunner(RunReport &report,
                                      const std::optional<TrainingOptions> &training) {
  PipelineOptions options;
  options.training = training;
  if (training)
    options.training->evaluation = TrainCommand::evaluationFor(model);
  options.microBatches = microBatches;
  options.threads = static_cast<int>(threads);
  options.dynamic = dynamic;
  options.devices = deviceList();
  options.seed = static_cast<uint64_t>(seed.getValue());
  TRY(readSchedule(options, training.has_value()));
  Pipeline loaded = TRY(Pipeline::load(model, options));
  auto pipeline = std::make_shared<Pipeline>(std::move(loaded));
  for (const std::string &warning : pipeline->warnings())
    printWarning(warning);
  for (const StagePlan &stage : pipeline->plan().stages)
    report.stages.push_back({modulesOf(stage), stage.rank});
  report.devices = pipeline->devices();
  report.threads = pipeline->threads();
  report.options["schedule"] =
      given(schedule) ? schedule.getValue() : pipeline->plan().scheduleName;
  auto times = std::make_shared<RunTimes>();
  const bool isTable = !options.scheduleCsv.empty() ||
                       (!given(schedule) && pipeline->plan().scheduleName == "table");
  std::optional<Trainer> trainer;
  if (training) {
    trainer = trainerOf(pipeline);
    for (auto *step : {&trainer->stepOnBatches, &trainer->stepOnMicroBatches})
      *step = [pipeline, times, inner = *step](const Trainer::Batches &batches,
                                               StepStats &stats) -> llvm::Expected<TrainedStep> {
        llvm::Expected<TrainedStep> done = inner(batches, stats);
        if (done)
          TRY(noteTimes(*pipeline, *times));
        return done;
      };
  }
  return Runner{[pipeline, times](const std::vector<c10::IValue> &values,
                                  StepStats &stats) -> llvm::Expected<c10::IValue> {
                  llvm::Expected<c10::IValue> result = pipeline->infer(values, &stats);
                  if (result)
                    TRY(noteTimes(*pipeline, *times));
                  return result;
                },
                [pipeline]() -> const Signature & { return pipeline->plan().signature; },
                [pipeline](const Arguments &arguments) { return pipeline->bind(arguments); },
                [pipeline] { return pipeline->peakMemoryBytes(); },
                [] { return std::vector<std::string>(); },
                std::move(trainer),
                [pipeline] { return pipeline->microBatches(); },
                std::max<int64_t>(pipeline->plan().microBatches, 1),
                isTable ? pipeline->microBatches() : 0,
                times,
                [pipeline]() -> const Plan & { return pipeline->plan(); }};
}

llvm::Expected<Runner> referenceRunner(RunReport &report,
                                       const std::optional<TrainingOptions> &training) {
  ReferenceOptions options;
  options.method = method;
  options.microBatches = given(microBatches) ? static_cast<int64_t>(microBatches) : 1;
  options.threads = static_cast<int>(threads);
  options.seed = static_cast<uint64_t>(seed.getValue());
  std::vector<std::string> names = deviceList();
  if (names.size() > 1)
    return failf(ExitCode::Usage, "--device: expected one device for a .pt, got {}", names.size());
  if (!names.empty())
    options.device = names[0];
  options.batchDims = TRY(parseBatchDims(batchDim));
  options.merges = TRY(parseMerges(merge));
  if (infer)
    options.mode.training = false;
  if (training) {
    options.mode.training = true;
    options.mode.loss = TrainCommand::lossFile();
    options.mode.lossMethod = method;
    if (!options.mode.loss.empty())
      options.method = kLossMethod;
    options.threads = std::max(options.threads, 1); // numbers depend on it
  }
  options.mode.keepEval = keepEval;
  Reference loaded = TRY(Reference::load(model, options));
  auto reference = std::make_shared<Reference>(std::move(loaded));
  if (training)
    TRY(reference->train(*training));
  std::optional<Trainer> trainer;
  if (training)
    trainer = trainerOf(reference);
  report.stages.push_back({"the whole model", 0});
  report.devices = {reference->device()};
  report.threads = reference->threads();
  report.options["method"] = options.method;
  report.options["batch_dim"] = llvm::json::Array(batchDim);
  report.options["merge"] = llvm::json::Array(merge);
  report.options["infer"] = infer.getValue();
  report.options["keep_eval"] = llvm::json::Array(keepEval);
  return Runner{[reference](const std::vector<c10::IValue> &values, StepStats &stats) {
                  return reference->infer(values, &stats);
                },
                [reference]() -> const Signature & { return reference->signature(); },
                [reference](const Arguments &arguments) {
                  return bindArguments(reference->signature(), reference->inputTypes(), arguments);
                },
                [reference] { return std::vector<int64_t>{reference->peakMemoryBytes()}; },
                [reference] {
                  for (const std::string &warning : reference->warnings())
                    printWarning(warning);
                  return reference->notes();
                },
                std::move(trainer),
                [number = options.microBatches] { return number; },
                1,
                0,
                nullptr,
                nullptr};
}

llvm::Expected<std::vector<c10::IValue>> readInputs(const Runner &runner) {
  Arguments arguments;
  if (given(inputsOption)) {
    arguments = TRY(argumentsFromOption(inputsOption));
  }
  auto values = runner.bind(arguments);
  if (values || given(inputsOption))
    return values;
  ErrorText text = describe(values.takeError());
  return makeError(
      text.code, text.message,
      "pass the batch: --inputs FILE, or a description as --inputs 'f32[8,3,224,224]'");
}

/// Runs warm-ups and timed runs; returns the result of the very first one, on the CPU.
llvm::Expected<c10::IValue> runAll(const Runner &runner, const std::vector<c10::IValue> &inputs,
                                   RunReport &report) {
  std::optional<c10::IValue> first;
  for (int64_t i = 0; i < warmup + repeat; ++i) {
    StepStats stats;
    c10::IValue result = TRY(runner.infer(inputs, stats));
    const std::vector<std::string> said = first ? std::vector<std::string>() : stats.warnings;
    if (i >= warmup) {
      report.durationsNs.push_back(stats.makespanNs);
      report.steps.push_back(std::move(stats));
    }
    for (const std::string &warning : said)
      printWarning(warning);
    if (!first)
      first = std::move(result);
  }
  return guardTorch(ExitCode::Other, "reading the outputs", [&] {
    return mapTensors(*first, [](const at::Tensor &tensor) {
      return tensor.defined() ? tensor.to(at::kCPU) : tensor;
    });
  });
}

/// The effective options, with defaults. An option without a default is left out unless it was
/// given.
void noteOptions(RunReport &report) {
  report.model = model;
  const std::pair<const char *, const StringOption &> texts[] = {
      {"inputs", inputsOption}, {"output", output}, {"expect", expect}, {"trace", trace}};
  for (const auto &[name, option] : texts)
    if (given(option))
      report.options[name] = option.getValue();
  const std::pair<const char *, const NumberOption &> tolerances[] = {{"rtol", rtol},
                                                                      {"atol", atol}};
  for (const auto &[name, option] : tolerances)
    if (given(option))
      report.options[name] = option.getValue().value;
  report.options["force"] = force.getValue();
  report.options["load_library"] = llvm::json::Array(libraries);
  report.options["microbatches"] = report.microBatches;
  report.options["device"] = llvm::json::Array(report.devices);
  report.options["threads"] = report.threads;
  if (given(dynamic))
    report.options["dynamic"] = dynamic.getValue().value;
  report.options.try_emplace("seed", static_cast<int64_t>(seed)); // a resume has its own
  report.options["repeat"] = static_cast<int64_t>(repeat);
  report.options["warmup"] = static_cast<int64_t>(warmup);
}

/// Checked before any device is opened: the plan may have fewer ranks than the given devices.
llvm::Error checkDeviceNumber(bool isArtifact) {
  if (!isArtifact || deviceList().size() < 2 || given(schedule)) // which places the stages anew
    return llvm::Error::success();
  Artifact artifact = TRY(openArtifactPlan(model));
  return deviceNames(deviceList(), artifact.plan.ranks, artifact.plan.stages.size()).takeError();
}

/// Without --microbatches, the batch decides how many there are.
void noteMicroBatches(const Runner &runner, int64_t samples) {
  const int64_t used = runner.microBatches();
  if (given(microBatches) || used == runner.byDefault)
    return;
  const Signature &signature = runner.signature();
  std::string why = "the batch has " + counted(static_cast<size_t>(samples), "sample");
  if (samples == 0)
    why = isCut(signature) ? "the batch has no samples" : "no input has a batch dimension";
  else if (!signature.batchSymbolic)
    why += fmt::format(", and the model's constants fix a micro-batch of {}", signature.batchSize);
  printNote(fmt::format("running {} instead of the default {}: {}",
                        counted(static_cast<size_t>(used), "micro-batch"), runner.byDefault, why));
}

/// Of an artifact: what the simulator makes of the measured times, for the report and --trace.
llvm::Error noteTimes(const Runner &runner, RunReport &report) {
  if (!runner.times || !runner.times->last())
    return llvm::Error::success();
  SimulatedRun predicted = TRY(runner.times->simulated(runner.plan()));
  report.predicted = {predicted.makespan,
                      {},
                      meanBubble(predicted, predicted.makespan),
                      meanBubble(predicted, predicted.longestSpan)};
  if (!given(trace))
    return llvm::Error::success();
  return writeFileFor(trace,
                      traceFile(*runner.times->last(), predicted,
                                given(schedule) ? schedule.getValue() : runner.plan().scheduleName),
                      force);
}

/// Trains and reports; inputs are read by the training.
llvm::Error trainAll(Runner &runner, RunReport &report) {
  runner.trainer->signature = runner.signature;
  runner.trainer->bind = runner.bind;
  TRY(TrainCommand::run(*runner.trainer, inputsOption, output,
                        given(seed) ? std::optional<uint64_t>(seed.getValue()) : std::nullopt,
                        given(microBatches) ? microBatches.getValue().value
                                            : runner.fixedMicroBatches,
                        json, report));
  for (const std::string &note : runner.notes())
    printNote(note);
  report.microBatches = runner.microBatches();
  noteOptions(report);
  report.peakMemoryBytes = runner.peakMemory();
  TRY(noteTimes(runner, report));
  if (json)
    printJson(report, toStdout());
  else if (!report.durationsNs.empty())
    printText(report, toStdout());
  return llvm::Error::success();
}

/// Options that a training has no use for.
llvm::Error refuseWithTraining() {
  const std::pair<const char *, const cl::Option &> others[] = {
      {"expect", expect}, {"rtol", rtol},     {"atol", atol},
      {"repeat", repeat}, {"warmup", warmup}, {"infer", infer}};
  for (const auto &[name, option] : others)
    if (given(option))
      return failf(ExitCode::Usage, "--{}: expected it without --train, got both", name);
  return llvm::Error::success();
}

llvm::Expected<ExitCode> run() {
  bool isTraining = TRY(TrainCommand::isWanted(given(inputsOption), force));
  std::optional<TrainingOptions> training;
  if (isTraining) {
    TRY(refuseWithTraining());
    training = TRY(TrainCommand::options());
  }
  bool isArtifact = llvm::sys::fs::is_directory(model);
  TRY(checkOptions(isArtifact));
  TRY(checkDeviceNumber(isArtifact));
  for (const std::string &name : deviceList())
    if (name != "cpu") // a GPU library must be there before anything looks for it
      if (llvm::Expected<std::shared_ptr<Device>> opened = makeDevice(name); !opened)
        return withContext(opened.takeError(), "--device");
  for (const std::string &path : libraries)
    TRY(loadLibrary(path));
  std::optional<c10::IValue> expected;
  if (given(expect)) { // before the run, so that a missing file is found at once
    expected = TRY(readValue(expect));
  }
  sendModelPrintsToStderr();
  keepFreedMemory();
  RunReport report;
  Runner runner =
      TRY(isArtifact ? pipelineRunner(report, training) : referenceRunner(report, training));
  if (training) {
    TRY(trainAll(runner, report));
    return ExitCode::Success;
  }
  std::vector<c10::IValue> inputs = TRY(readInputs(runner));
  c10::IValue result = TRY(runAll(runner, inputs, report));
  for (const std::string &note : runner.notes())
    printNote(note);
  if (given(output))
    TRY(writeValue(output, result));

  report.microBatches = runner.microBatches();
  noteOptions(report);
  report.samples = batchSizeOr(0, runner.signature(), inputs); // 0: nothing is cut
  noteMicroBatches(runner, report.samples);
  report.peakMemoryBytes = runner.peakMemory();
  report.outputs = describeOutputs(result);
  TRY(noteTimes(runner, report));
  if (expected)
    report.comparison =
        compare(*expected, result, given(rtol) ? std::optional<double>(rtol) : std::nullopt,
                given(atol) ? std::optional<double>(atol) : std::nullopt);
  if (json)
    printJson(report, toStdout());
  else
    printText(report, toStdout());
  if (!report.comparison)
    return ExitCode::Success;
  printVerdict(report.comparison->equal, report.comparison->firstDifference, json);
  return report.comparison->equal ? ExitCode::Success : ExitCode::Mismatch;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(
      argc, argv,
      {"pipe-run",
       "runs a compiled pipeline, or the unsplit model as its reference",
       "MODEL.pipe|MODEL.pt [options]",
       {"pipe-run model.pt --inputs batch.pt --microbatches 4 --threads 1 --output expected.pt",
        "pipe-run model.pipe --inputs batch.pt --microbatches 4 --threads 1 --expect expected.pt "
        "--rtol 0 --atol 0",
        "pipe-run model.pipe --inputs 'f32[32,3,224,224]' --repeat 20 --warmup 3"},
       [] { return artifactParts(model); }},
      run);
}
