#include "tools/run/RunCommand.h"

#include "ir/artifact/ArtifactReader.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/schedule/Generators.h"
#include "ir/schedule/Schedule.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/Device.h"
#include "runtime/Replicas.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/OutputFile.h"
#include "tools/run/RunFiles.h"

#include <limits>

namespace pipec {

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
                      "any of a training that pipe-schedule --list prints"),
             cl::value_desc("forward-only|NAME|FILE.csv"), cl::cat(category));
IntegerOption dynamic("dynamic",
                      cl::desc("run what is ready, with at most N micro-batches in flight in each "
                               "stage, instead of the schedule's order; same results"),
                      cl::value_desc("N"), cl::cat(category));
StringOption device("device",
                    cl::desc("device for all ranks, or one per rank (of all replicas) such as "
                             "cuda:0,cuda:1 (default: cpu)"),
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
        "batch dimensions of a .pt's arguments, or of their parts (batch.mask, xs.0), where the "
        "test runs do not find the right ones"),
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
FlagOption force("force", cl::desc("replace existing files of --output, --trace and --emit-grads"),
                 cl::cat(category));
StringOption expect("expect",
                    cl::desc("compare what --output writes with a file; exit 7 if they differ"),
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
FlagOption json("json",
                cl::desc("print one JSON document; with --train, a line per step before it"),
                cl::cat(category));

constexpr int64_t kMany = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxThreads = 1024; // with more, LibTorch slows the machine down

/// Empty: not given. Errors: Usage for an empty name.
llvm::Expected<std::vector<std::string>> deviceList() {
  std::vector<std::string> names;
  if (!given(device))
    return names;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::StringRef(device).split(parts, ',');
  for (llvm::StringRef &part : parts)
    names.push_back((part = part.trim()).str());
  if (parts.size() > 1)
    TRY(expectNoneEmpty("--device", device, parts));
  return names;
}

/// Options that an artifact, or a .pt, does not have.
llvm::Error checkModelKind(bool isArtifact) {
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
  const std::pair<const char *, const cl::Option &> chosenByCompile[] = {{"method", method},
                                                                         {"batch-dim", batchDim},
                                                                         {"merge", merge},
                                                                         {"infer", infer},
                                                                         {"keep-eval", keepEval}};
  for (const auto &[name, option] : chosenByCompile)
    if (isArtifact && given(option))
      return makeError(ExitCode::Usage, fmt::format("--{}: expected a .pt, got an artifact", name),
                       fmt::format("an artifact keeps what pipe-compile --{} chose", name));
  return llvm::Error::success();
}

/// Files that exist, that cannot be written or that would damage an artifact.
llvm::Error checkOutputs() {
  if (given(trace))
    TRY(refuseExisting(trace, force));
  if (given(output))
    TRY(requireNewFile(output, force));
  return llvm::Error::success();
}

llvm::Error checkOptions(bool isArtifact) {
  for (const auto &[option, least, most] :
       {std::tuple<const IntegerOption &, int64_t, int64_t>(microBatches, 1, kMostMicroBatches),
        {threads, 1, kMaxThreads},
        {dynamic, 1, kMany},
        {repeat, 1, kMany},
        {warmup, 0, kMany},
        {seed, 0, kMany}})
    TRY(within(option, least, most));
  for (const auto &[name, option] :
       {std::pair<const char *, const StringOption &>("inputs", inputsOption),
        {"schedule", schedule},
        {"output", output},
        {"expect", expect},
        {"trace", trace}})
    if (given(option) && option.empty())
      return failf(ExitCode::Usage, "--{}: expected a value, got none", name);
  TRY(checkModelKind(isArtifact));
  TRY(checkOutputs());
  for (const NumberOption *option : {&rtol, &atol})
    if (given(*option) && !(*option >= 0))
      return failf(ExitCode::Usage, "{}: expected at least 0, got {}",
                   spelledOption(option->ArgStr), option->getValue().value);
  if (!given(expect) && (given(rtol) || given(atol)))
    return makeError(ExitCode::Usage, given(rtol) ? "--rtol: expected --expect with it, got none"
                                                  : "--atol: expected --expect with it, got none");
  return llvm::Error::success();
}

/// Checked before any device is opened: the plan may have fewer ranks than the given devices.
llvm::Error checkDeviceNumber(const RunCommand &command) {
  const std::vector<std::string> &devices = command.devices;
  if (!command.isArtifact || devices.size() < 2 || given(schedule)) // which places the stages anew
    return llvm::Error::success();
  Artifact artifact = TRY(openArtifactPlan(model));
  const Plan &plan = artifact.plan;
  const int64_t number = command.replicas // 0: as many as fit
                             ? command.replicas
                             : replicasThatFit(plan.ranks, devices, static_cast<int>(threads));
  return deviceNames(devices, plan.ranks * static_cast<size_t>(number), plan.stages.size())
      .takeError();
}

/// Options that a training has no use for.
llvm::Error refuseWithTraining() {
  const std::pair<const char *, const cl::Option &> others[] = {
      {"repeat", repeat}, {"warmup", warmup}, {"infer", infer}};
  for (const auto &[name, option] : others)
    if (given(option))
      return failf(ExitCode::Usage, "--{}: expected it without --train, got both", name);
  return llvm::Error::success();
}

/// Sets the schedule of the options from --schedule.
llvm::Error readSchedule(PipelineOptions &options, bool isTraining) {
  if (!given(schedule))
    return llvm::Error::success();
  if (!llvm::sys::fs::exists(schedule) && !endsWith(schedule, ".csv")) {
    const std::string name = asNamedInTable(schedule.getValue());
    if (name != "forward-only" && !isTraining)
      return makeError(ExitCode::Usage,
                       fmt::format("--schedule: expected forward-only or a CSV file, got {}",
                                   schedule.getValue()),
                       findGenerator(name)
                           ? name + " is a schedule of a training: pass --train with it, to an "
                                    "artifact of pipe-compile --train"
                           : "");
    options.scheduleName = name;
    return llvm::Error::success();
  }
  TextFormat format;
  format.what = "a table of a schedule";
  format.code = ExitCode::Unreadable;
  llvm::Expected<std::string> csv = readTextFile(schedule, format);
  if (!csv)
    return withContext(csv.takeError(), "--schedule");
  options.scheduleCsv = std::move(*csv);
  if (options.scheduleCsv.empty())
    return failf(ExitCode::Unreadable, "--schedule: {} is empty", schedule.getValue());
  if (llvm::Expected<Schedule> rows = scheduleFromCsv(options.scheduleCsv); !rows) {
    ErrorText text = describe(rows.takeError());
    return makeError(ExitCode::Unreadable,
                     fmt::format("--schedule {}: {}", schedule.getValue(), text.message),
                     text.help);
  }
  return llvm::Error::success();
}

} // namespace

std::string modelOfCommand() { return model; }

llvm::Expected<RunCommand> readRunCommand() {
  RunCommand command;
  command.training = TRY(readTrainOptions(given(inputsOption), force));
  if (command.training)
    TRY(refuseWithTraining());
  command.model = model;
  // Before anything is said about a .pt, which is all that is no directory.
  if (std::error_code missing = llvm::sys::fs::access(model, llvm::sys::fs::AccessMode::Exist))
    return cannotRead(model, missing);
  command.isArtifact = llvm::sys::fs::is_directory(model);
  if (command.isArtifact)
    TRY(refuseCheckpoint(model, "a model or an artifact"));
  TRY(checkOptions(command.isArtifact));
  command.devices = TRY(deviceList());
  if (command.training) {
    TRY(checkTrainedModel(*command.training, command.isArtifact));
    command.replicas = command.training->replicas;
  }
  TRY(checkDeviceNumber(command));
  command.inputs = inputsOption;
  command.schedule = asNamedInTable(schedule.getValue());
  command.microBatches = asGiven(microBatches);
  if (given(seed))
    command.seed = static_cast<uint64_t>(seed.getValue());
  command.libraries = libraries;
  command.output = output;
  command.expect = expect;
  command.trace = given(trace) ? &trace : nullptr;
  command.rtol = asGiven(rtol);
  command.atol = asGiven(atol);
  command.repeat = repeat;
  command.warmup = warmup;
  command.force = force;
  command.json = json;
  TRY(checkDistinctFiles(command));
  return command;
}

llvm::Expected<PipelineOptions> pipelineOptions(const RunCommand &command) {
  PipelineOptions options;
  if (const std::optional<TrainOptions> &training = command.training) {
    options.training = training->training;
    if (!training->evalData.empty())
      options.training->evaluation =
          training->evalArtifact.empty() ? command.model : training->evalArtifact;
  }
  options.microBatches = microBatches;
  options.threads = static_cast<int>(threads);
  options.dynamic = dynamic;
  options.replicas = command.replicas;
  options.devices = command.devices;
  options.seed = static_cast<uint64_t>(seed.getValue());
  TRY(readSchedule(options, command.training.has_value()));
  return options;
}

llvm::Expected<ReferenceOptions> referenceOptions(const RunCommand &command) {
  ReferenceOptions options;
  options.method = method;
  options.microBatches = command.microBatches.value_or(1);
  options.threads = static_cast<int>(threads);
  options.seed = static_cast<uint64_t>(seed.getValue());
  if (command.devices.size() > 1)
    return failf(ExitCode::Usage, "--device: expected one device for a .pt, got {}",
                 command.devices.size());
  if (!command.devices.empty())
    options.device = command.devices.front();
  options.batchDims = TRY(parseBatchDims(batchDim));
  options.merges = TRY(parseMerges(merge));
  if (infer)
    options.mode.training = false;
  if (command.training) {
    options.mode.training = true;
    options.mode.loss = command.training->loss;
    options.mode.lossMethod = method;
    options.threads = std::max(options.threads, 1); // numbers depend on it
  }
  options.mode.keepEval = keepEval;
  return options;
}

void noteReferenceOptions(RunReport &report) {
  report.options["method"] = method.getValue();
  report.options["batch_dim"] = llvm::json::Array(batchDim);
  report.options["merge"] = llvm::json::Array(merge);
  report.options["infer"] = infer.getValue();
  report.options["keep_eval"] = llvm::json::Array(keepEval);
}

void noteOptions(const RunCommand &command, RunReport &report) {
  report.model = command.model;
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

} // namespace pipec
