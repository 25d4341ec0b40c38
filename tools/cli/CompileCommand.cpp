#include "tools/cli/CompileCommand.h"

#include "ir/schedule/Generators.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "passes/Pass.h"
#include "passes/PassTable.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/report/Table.h"

namespace pipec {

namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("pipe-compile");
StringOption model(cl::Positional, cl::Required, cl::desc("MODEL.pt"), cl::cat(category));
StringOption output("o", cl::desc("artifact directory (default: the model's name with .pipe)"),
                    cl::value_desc("OUT.pipe"), cl::cat(category));
IntegerOption stages("stages", cl::desc("number of stages; must agree with markers or --at"),
                     cl::value_desc("N"), cl::cat(category));
StringListOption at("at",
                    cl::desc("cut before the first operator of each module, such as "
                             "encoder.layers.6; NAME#2 is its second call"),
                    cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(category));
FlagOption nearestPlace(
    "nearest",
    cl::desc("move a cut of --at or of a marker that is not possible there to the nearest possible "
             "place, with a warning (default: an error that names this place)"),
    cl::cat(category));
StringOption split("split",
                   cl::desc("source of the cuts (default: at if given, otherwise markers if the "
                            "model has any, otherwise auto)"),
                   cl::value_desc("auto|markers|at"), cl::cat(category));
StringListOption inputs(
    "inputs",
    cl::desc(
        "example inputs of one micro-batch: a file written by torch.save, or a description such as "
        "f32[8,3,224,224]; repeat it with other sizes to show which sizes vary between runs"),
    cl::value_desc("FILE|TEXT"), cl::cat(category));
StringOption method("method", cl::desc("method to compile (default: forward)"),
                    cl::value_desc("NAME"), cl::init("forward"), cl::cat(category));
StringListOption batchDim("batch-dim",
                          cl::desc("dimension along which an input is cut into micro-batches"),
                          cl::value_desc("NAME=K|none,..."), cl::CommaSeparated, cl::cat(category));
StringListOption merge("merge",
                       cl::desc("how the micro-batches' values of a result are merged, where the "
                                "test runs do not find the right rule; may be repeated"),
                       cl::value_desc("PATH=concat:K|join|sum|mean|list|same,..."),
                       cl::cat(category));
StringListOption tied(
    "tied",
    cl::desc("transmit or replicate weights that several stages use; NAME=... for single weights"),
    cl::value_desc("transmit|replicate|NAME=...,..."), cl::CommaSeparated, cl::cat(category));
FlagOption infer("infer",
                 cl::desc("compile in eval mode: the training flags of all modules become false "
                          "(default: the file's flags)"),
                 cl::cat(category));
FlagOption train(
    "train",
    cl::desc("compile for training: loss and gradients of the stages are compared with the "
             "model's, and cuts if none are given, stages per rank, schedule, micro-batches, "
             "recomputation and shared weights are planned together, within the memory of the "
             "devices; the training flags of all modules become true. The model returns its loss; "
             "with --dry-run one without a loss is planned, too"),
    cl::cat(category));
StringOption
    loss("loss",
         cl::desc("compile for training with the loss in this file: a module whose forward "
                  "takes the model's results and then targets, which become further "
                  "arguments; with --infer in eval mode, for evaluations of such a training"),
         cl::value_desc("LOSS.pt"), cl::cat(category));
StringOption
    lossOutput("loss-output",
               cl::desc("with --train: the result that is the loss, one floating-point "
                        "number, or PATH,PATH for a sum and its count (default: the model's "
                        "only result, or the pair of a sum and a whole number)"),
               cl::value_desc("PATH"), cl::cat(category));
FlagOption evaluation("evaluation",
                      cl::desc("with --train: the artifact also has stages in eval mode, for "
                               "pipe-run --eval-data; they have weights of their own on disk, and "
                               "none in memory"),
                      cl::cat(category));
StringListOption
    keepEval("keep-eval",
             cl::desc("modules to compile in eval mode, regardless of the file's flags"),
             cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(category));
StringOption verifyHow("verify",
                       cl::desc("graph (default) proves that the stages equal the source; run also "
                                "requires example inputs and reads large weights back completely"),
                       cl::value_desc("none|graph|run"), cl::init("graph"), cl::cat(category));
StringOption cluster(
    "cluster",
    cl::desc("devices and links to plan for, see docs/cluster.md (default: a CPU core per rank)"),
    cl::value_desc("FILE.json"), cl::cat(category));
StringOption cost(
    "cost",
    cl::desc("cost of operators: the analytic cost model (operation counts and device rates, the "
             "same on every run), times measured on this machine, or a table written by "
             "--emit-costs (default: measured for automatic cuts on CPUs, otherwise analytic)"),
    cl::value_desc("analytic|measured|FILE.json"), cl::cat(category));
DurationOption costBudget("cost-budget", cl::desc("time limit for measuring costs (default: 10s)"),
                          cl::value_desc("TIME"), cl::init(DurationValue(10'000'000'000)),
                          cl::cat(category));
StringOption emitCosts("emit-costs",
                       cl::desc("write the cost of every operator in the form that --cost reads"),
                       cl::value_desc("FILE.json"), cl::cat(category));
SizeOption memoryLimit(
    "memory-limit",
    cl::desc("memory limit of a stage: its weights plus the peak of its intermediate results; with "
             "--train the limit of a device: weights, gradients, two optimizer states and what the "
             "backward keeps (default: the memory in --cluster)"),
    cl::value_desc("SIZE"), cl::cat(category));
IntegerOption microBatches(
    "microbatches",
    cl::desc("default number of micro-batches of the artifact (default: the number of stages)"),
    cl::value_desc("M"), cl::cat(category));
IntegerOption
    ranks("ranks",
          cl::desc("number of ranks for the stages (default: one per stage; with measured costs at "
                   "most one per core of the measuring machine, or per device of --cluster)"),
          cl::value_desc("R"), cl::cat(category));
StringOption schedule(
    "schedule",
    cl::desc("default schedule of the artifact (default: forward-only). auto chooses by cost which "
             "rank gets which stages and, if not given, the stages per rank and the number of "
             "micro-batches. A CSV file is a table of forward actions as pipe-schedule --csv "
             "writes it; it also sets stages, ranks and micro-batches. With --train: auto (the "
             "default) or a name from pipe-schedule --list"),
    cl::value_desc("forward-only|auto|NAME|FILE.csv"), cl::init("forward-only"), cl::cat(category));
IntegerOption batch("batch",
                    cl::desc("with --train: samples per step (default: two micro-batches per rank, "
                             "or --microbatches, each of the example's size)"),
                    cl::value_desc("B"), cl::cat(category));
StringOption recompute("recompute",
                       cl::desc("with --train: which stages run their forward again in the "
                                "backward (default: auto, those for which memory is too small)"),
                       cl::value_desc("never|always|auto"), cl::init("auto"), cl::cat(category));
StringListOption libraries("load-library", cl::desc("load custom operators; may be repeated"),
                           cl::value_desc("LIB.so"), cl::cat(category));
StringOption recordCase("record-case",
                        cl::desc("record the unsplit model's outputs on the example, one per "
                                 "micro-batch, as a case for pipe-check --case"),
                        cl::value_desc("DIR"), cl::cat(category));
StringOption dumpIr("dump-ir",
                    cl::desc("write the model's text after each pass that changed it, into a "
                             "directory without earlier dumps"),
                    cl::value_desc("DIR"), cl::cat(category));
FlagOption printPipeline("print-pipeline",
                         cl::desc("print the passes in the form that pipe-opt reads, with comments "
                                  "on what runs between them, and exit"),
                         cl::cat(category));
StringOption printAfter("print-after", cl::desc("print the model after a pass (or all) to stderr"),
                        cl::value_desc("PASS|all"), cl::cat(category));
FlagOption reproducerWeights(
    "reproducer-weights",
    cl::desc("after an internal error, include the model with its weights in the reproducer"),
    cl::cat(category));
FlagOption dryRun("dry-run", cl::desc("do everything except write the artifact"),
                  cl::cat(category));
FlagOption force("force", cl::desc("replace an existing artifact and existing dumps of --dump-ir"),
                 cl::cat(category));
FlagOption json("json", cl::desc("print one JSON document"), cl::cat(category));
StringOption plantedFault("planted-fault", cl::desc("break the stages on purpose (test builds)"),
                          cl::value_desc("NAME"), cl::Hidden, cl::cat(category));
SizeOption pastCacheFrom(
    "past-cache-from",
    cl::desc(
        "size of weights from which they bypass the kernel's cache when written (test builds)"),
    cl::value_desc("SIZE"), cl::Hidden, cl::cat(category));

llvm::Error readLists(CompileOptions &options) {
  for (const std::string &name : at)
    options.cuts.push_back(AtModule{name});
  options.batchDims = TRY(parseBatchDims(batchDim));
  options.merges = TRY(parseMerges(merge));
  for (llvm::StringRef text : tied) {
    auto [name, value] =
        text.contains('=') ? text.rsplit('=') : std::make_pair(llvm::StringRef(), text);
    if (value != "transmit" && value != "replicate")
      return makeError(ExitCode::Usage,
                       "--tied: expected transmit, replicate or NAME=transmit, got " + text.str());
    options.tied.emplace_back(name.str(),
                              value == "transmit" ? Tie::Mode::Transmit : Tie::Mode::Replicate);
  }
  for (const std::string &name : keepEval)
    options.keepEval.push_back(name);
  return llvm::Error::success();
}

std::optional<CostSource> readCost() {
  if (cost.empty())
    return std::nullopt;
  if (cost == "analytic")
    return AnalyticCosts();
  if (cost == "measured")
    return MeasuredCosts();
  return CostFile{cost};
}

llvm::Error checkNumber(const IntegerOption &option, llvm::StringRef name) {
  int64_t number = option.getValue();
  if (given(option) && number < 1)
    return failf(ExitCode::Usage, "--{}: expected at least 1, got {}", name.str(), number);
  if (given(option) && number > kMostMicroBatches)
    return failf(ExitCode::Usage, "--{}: expected at most {}, got {}", name.str(),
                 kMostMicroBatches, number);
  return llvm::Error::success();
}

bool isScheduleTable() {
  return given(schedule) && (endsWith(schedule, ".csv") || llvm::sys::fs::exists(schedule));
}

llvm::Error readTable(CompileOptions &options) {
  auto buffer = llvm::MemoryBuffer::getFile(schedule);
  if (!buffer)
    return withContext(cannotRead(schedule, buffer.getError()), "--schedule");
  std::string csv = (*buffer)->getBuffer().str();
  if (csv.empty())
    return failf(ExitCode::Unreadable, "--schedule: {} is empty", schedule.getValue());
  options.schedule = ScheduleTable{std::move(csv)};
  return llvm::Error::success();
}

/// The default schedule of an inference: by name, or a table.
llvm::Error readSchedule(CompileOptions &options) {
  if (isScheduleTable())
    return readTable(options);
  if (schedule == "auto")
    options.schedule = AutoSchedule();
  else if (schedule != "forward-only")
    return failf(ExitCode::Usage, "--schedule: expected forward-only, auto or a CSV file, got {}",
                 schedule.getValue());
  return llvm::Error::success();
}

bool isTraining() { return train || (given(loss) && !infer); }

llvm::Error readTraining(CompileOptions &options) {
  for (const cl::Option *option :
       {static_cast<cl::Option *>(&batch), static_cast<cl::Option *>(&recompute),
        static_cast<cl::Option *>(&lossOutput),
        static_cast<cl::Option *>(std::addressof(evaluation))})
    if (given(*option) && (infer || !given(loss)) && !train)
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected --train with it", spelledOption(option->ArgStr)));
  if (!train && infer) // the loss in eval mode, for evaluations between the steps of a training
    options.loss = loss;
  if (!isTraining())
    return readSchedule(options);
  if (infer)
    return makeError(ExitCode::Usage, "--train: expected it without --infer, got both",
                     "leave one of the two out");
  const Generator *generator = findGenerator(schedule);
  const bool isTable = isScheduleTable();
  if (given(schedule) && schedule != "auto" && !isTable && (!generator || generator->inference))
    return makeError(
        ExitCode::Usage,
        fmt::format("--schedule: expected auto, a schedule of a training or a CSV file, "
                    "got {}",
                    schedule.getValue()),
        "pipe-schedule --list names them");
  RecomputeChoice again = TRY(chooseByName<RecomputeChoice>("recompute", recompute,
                                                            {{"never", RecomputeChoice::Never},
                                                             {"always", RecomputeChoice::Always},
                                                             {"auto", RecomputeChoice::Auto}}));
  options.mode = Mode::Train;
  options.batch = batch;
  options.evaluation = evaluation;
  options.recompute = again;
  if (given(recordCase))
    return makeError(ExitCode::Usage,
                     "--record-case: expected a compile for inference, got --train",
                     "a case is a batch and its results; leave one of the two out");
  if (isTable) {
    TRY(readTable(options));
  } else if (given(schedule) && schedule != "auto") {
    options.schedule = NamedSchedule{schedule};
  } else {
    options.schedule = AutoSchedule();
  }
  options.trainingFlag = TrainingFlag::True;
  options.loss = loss;
  options.lossOutput = lossOutput;
  options.planOnly = dryRun;
  return llvm::Error::success();
}

llvm::Expected<CompileOptions> readOptions() {
  CompileOptions options;
  TRY(llvm::joinErrors(checkNumber(stages, "stages"),
                       llvm::joinErrors(checkNumber(microBatches, "microbatches"),
                                        llvm::joinErrors(checkNumber(ranks, "ranks"),
                                                         checkNumber(batch, "batch")))));
  Verify verify = TRY(chooseByName<Verify>(
      "verify", verifyHow,
      {{"none", Verify::None}, {"graph", Verify::Graph}, {"run", Verify::Run}}));
  if (given(split)) {
    CutSource source = TRY(chooseByName<CutSource>(
        "split", split,
        {{"auto", CutSource::Auto}, {"markers", CutSource::Markers}, {"at", CutSource::At}}));
    options.split = source;
  }
  if (std::string nearest;
      given(printAfter) && printAfter != "all" && !findPass(printAfter, &nearest))
    return makeError(
        ExitCode::Usage, "--print-after: expected a pass or all, got " + printAfter.getValue(),
        nearest.empty() ? "pipe-opt --list-passes names them" : "did you mean " + nearest + "?");
  options.verify = verify;
  if (options.verify == Verify::Run && inputs.empty())
    return makeError(ExitCode::Usage, "--verify run: expected example inputs, got none",
                     "pass example inputs with --inputs");
  for (const auto &[name, isGiven] : {std::pair("--cost", given(cost)),
                                      {"--cost-budget", given(costBudget)},
                                      {"--cluster", given(cluster)},
                                      {"--emit-costs", given(emitCosts)},
                                      {"--memory-limit", given(memoryLimit)},
                                      {"--schedule auto", schedule == "auto"},
                                      {"--train", train.getValue()}})
    if (isGiven && inputs.empty())
      return makeError(ExitCode::Usage, fmt::format("{}: expected example inputs, got none", name),
                       "pass example inputs with --inputs");
  if (given(costBudget) && given(cost) && cost != "measured")
    return makeError(ExitCode::Usage, "--cost-budget: expected --cost measured with it");
  if (given(memoryLimit) && memoryLimit.getValue() < 1)
    return makeError(ExitCode::Usage, "--memory-limit: expected at least 1 byte, got 0");
  if (given(recordCase) && inputs.empty())
    return makeError(ExitCode::Usage, "--record-case: expected example inputs, got none",
                     "pass example inputs with --inputs");
  if (given(recordCase) && dryRun)
    return makeError(ExitCode::Usage,
                     "--record-case: expected a compile that writes, got --dry-run",
                     "leave out one of the two");
  if (options.split == CutSource::At && at.empty())
    return makeError(ExitCode::Usage, "--split at: expected modules, got none",
                     "name modules with --at");
  if (options.split && options.split != CutSource::At && !at.empty())
    return makeError(
        ExitCode::Usage,
        fmt::format("--at: expected --split at with it, got --split {}", split.getValue()),
        "leave one of the two out");
  options.stages = stages;
  options.nearest = nearestPlace;
  if (!inputs.empty()) {
    options.inputs = inputs.front();
    options.moreInputs.assign(inputs.begin() + 1, inputs.end());
  }
  options.method = method;
  options.microBatches = microBatches;
  options.ranks = ranks;
  options.cluster = cluster;
  options.cost = readCost();
  if (given(costBudget)) // however short, one run counts
    options.costBudgetNs = std::max<int64_t>(1, costBudget.getValue());
  options.listCosts = given(emitCosts);
  options.memoryLimit = memoryLimit.getValue();
  options.trainingFlag = infer ? TrainingFlag::False : TrainingFlag::Saved;
  options.printAfter = printAfter;
  options.dumpDir = dumpIr;
  options.replaceDumps = force;
  options.reproducers = ".";
  options.reproducerWeights = reproducerWeights;
  TRY(readLists(options));
  TRY(readTraining(options));
  return options;
}

llvm::Expected<InternalOptions> readInternal(const std::vector<std::string> &words) {
  InternalOptions internal;
  internal.command = words;
  if (given(pastCacheFrom))
    internal.pastCacheFrom = pastCacheFrom.getValue();
  const std::string fault = plantedFault;
  if (fault.empty())
    return internal;
  if (!testHook)
    return makeError(ExitCode::Usage, "no planted fault is called " + fault,
                     "planted faults are in builds with PIPEC_PLANTED_FAULTS only");
  internal.makeHook = [fault] { return testHook(fault); };
  return internal;
}

std::optional<std::string> asGiven(const StringOption &option) {
  return given(option) ? std::optional(option.getValue()) : std::nullopt;
}

} // namespace

llvm::Expected<CompileCommand> readCompileCommand(const std::vector<std::string> &words) {
  CompileOptions options = TRY(readOptions());
  InternalOptions internal = TRY(readInternal(words));
  CompileCommand command;
  command.options = std::move(options);
  command.internal = std::move(internal);
  command.model = model;
  command.target = output;
  if (command.target.empty()) {
    llvm::SmallString<128> name{llvm::StringRef(model)};
    llvm::sys::path::replace_extension(name, ".pipe");
    command.target = name.str().str();
  }
  command.libraries = libraries;
  command.emitCosts = asGiven(emitCosts);
  command.recordCase = asGiven(recordCase);
  command.printPipeline = printPipeline;
  command.dryRun = dryRun;
  command.force = force;
  command.json = json;
  command.dumps = given(dumpIr);
  return command;
}

llvm::json::Object optionsJson(const std::string &target, const CompileReport &report) {
  llvm::json::Object object{
      {"model", model.getValue()},
      {"o", target},
      {"at", llvm::json::Array(at)},
      {"method", method.getValue()},
      {"batch_dim", llvm::json::Array(batchDim)},
      {"merge", llvm::json::Array(merge)},
      {"tied", llvm::json::Array(tied)},
      {"infer", infer.getValue()},
      {"train", isTraining()},
      {"keep_eval", llvm::json::Array(keepEval)},
      {"verify", verifyHow.getValue()},
      {"microbatches", report.plan.microBatches},
      {"ranks", static_cast<int64_t>(report.plan.ranks)},
      {"schedule", isTraining() && !given(schedule) ? "auto" : schedule.getValue()},
      {"load_library", llvm::json::Array(libraries)},
      {"dry_run", dryRun.getValue()},
      {"force", force.getValue()}};
  if (given(memoryLimit))
    object["memory_limit"] = static_cast<int64_t>(memoryLimit.getValue());
  if (given(costBudget))
    object["cost_budget_ms"] = inMilliseconds(static_cast<double>(costBudget.getValue()));
  if (train)
    object["recompute"] = recompute.getValue();
  if (evaluation)
    object["evaluation"] = true;
  if (given(batch))
    object["batch"] = static_cast<int64_t>(batch);
  if (inputs.size() == 1)
    object["inputs"] = inputs.front();
  if (inputs.size() > 1)
    object["inputs"] = llvm::json::Array(inputs);
  if (given(stages))
    object["stages"] = static_cast<int64_t>(stages);
  for (const auto &[name, option] : {std::pair<const char *, const StringOption &>("split", split),
                                     {"cluster", cluster},
                                     {"cost", cost},
                                     {"emit_costs", emitCosts},
                                     {"dump_ir", dumpIr},
                                     {"record_case", recordCase},
                                     {"loss", loss},
                                     {"loss_output", lossOutput},
                                     {"print_after", printAfter}})
    if (given(option))
      object[name] = option.getValue();
  return object;
}

} // namespace pipec
