#include "tools/compile/CompileCommand.h"

#include "ir/support/Try.h"
#include "llvm/Support/Path.h"
#include "passes/Pass.h"
#include "passes/Registry.h"
#include "tools/cli/BatchDims.h"
#include "tools/cli/CommandLine.h"
#include "tools/compile/CompileTraining.h"
#include "tools/report/Table.h"

namespace pipec {

namespace cl = llvm::cl;

cl::OptionCategory compileCategory("pipe-compile");

namespace {

StringOption model(cl::Positional, cl::Required, cl::desc("MODEL.pt"), cl::cat(compileCategory));
StringOption output("o", cl::desc("artifact directory (default: the model's name with .pipe)"),
                    cl::value_desc("OUT.pipe"), cl::cat(compileCategory));
IntegerOption stages("stages", cl::desc("number of stages; must agree with markers or --at"),
                     cl::value_desc("N"), cl::cat(compileCategory));
StringListOption at("at",
                    cl::desc("cut before the first operator of each module, such as "
                             "encoder.layers.6; NAME#2 is its second call"),
                    cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(compileCategory));
FlagOption nearestPlace(
    "nearest",
    cl::desc("move a cut of --at or of a marker that is not possible there to the nearest possible "
             "place, with a warning (default: an error that names this place)"),
    cl::cat(compileCategory));
StringOption split("split",
                   cl::desc("source of the cuts (default: at if given, otherwise markers if the "
                            "model has any, otherwise auto)"),
                   cl::value_desc("auto|markers|at"), cl::cat(compileCategory));
StringListOption inputs(
    "inputs",
    cl::desc(
        "example inputs of one micro-batch: a file written by torch.save, or a description such as "
        "f32[8,3,224,224]; repeat it with other sizes to show which sizes vary between runs"),
    cl::value_desc("FILE|TEXT"), cl::cat(compileCategory));
StringOption method("method", cl::desc("method to compile (default: forward)"),
                    cl::value_desc("NAME"), cl::init("forward"), cl::cat(compileCategory));
StringListOption batchDim("batch-dim",
                          cl::desc("dimension along which an input, or a part of it (batch.mask, "
                                   "xs.0), is cut into micro-batches"),
                          cl::value_desc("NAME=K|none,..."), cl::CommaSeparated,
                          cl::cat(compileCategory));
StringListOption merge("merge",
                       cl::desc("how the micro-batches' values of a result are merged, where the "
                                "test runs do not find the right rule; may be repeated"),
                       cl::value_desc("PATH=concat:K|join|sum|mean|list|same,..."),
                       cl::cat(compileCategory));
StringListOption tied(
    "tied",
    cl::desc("transmit or replicate weights that several stages use; NAME=... for single weights"),
    cl::value_desc("transmit|replicate|NAME=...,..."), cl::CommaSeparated,
    cl::cat(compileCategory));
FlagOption infer("infer",
                 cl::desc("compile in eval mode: the training flags of all modules become false "
                          "(default: the file's flags)"),
                 cl::cat(compileCategory));
StringListOption
    keepEval("keep-eval",
             cl::desc("modules to compile in eval mode, regardless of the file's flags"),
             cl::value_desc("NAME,..."), cl::CommaSeparated, cl::cat(compileCategory));
StringOption verifyHow("verify",
                       cl::desc("graph (default) proves that the stages equal the source; run also "
                                "requires example inputs and reads large weights back completely"),
                       cl::value_desc("none|graph|run"), cl::init("graph"),
                       cl::cat(compileCategory));
StringOption cluster(
    "cluster",
    cl::desc("devices and links to plan for, see docs/cluster.md (default: a CPU core per rank)"),
    cl::value_desc("FILE.json"), cl::cat(compileCategory));
StringOption cost(
    "cost",
    cl::desc("cost of operators: the analytic cost model (operation counts and device rates, the "
             "same on every run), times measured on this machine, or a table written by "
             "--emit-costs (default: measured for automatic cuts on CPUs, otherwise analytic)"),
    cl::value_desc("analytic|measured|FILE.json"), cl::cat(compileCategory));
DurationOption costBudget("cost-budget", cl::desc("time limit for measuring costs (default: 10s)"),
                          cl::value_desc("TIME"), cl::init(DurationValue(10'000'000'000)),
                          cl::cat(compileCategory));
StringOption emitCosts("emit-costs",
                       cl::desc("write the cost of every operator in the form that --cost reads"),
                       cl::value_desc("FILE.json"), cl::cat(compileCategory));
SizeOption memoryLimit(
    "memory-limit",
    cl::desc("memory limit of a stage: its weights plus the peak of its intermediate results; with "
             "--train the limit of a device: weights, gradients, two optimizer states and what the "
             "backward keeps (default: the memory in --cluster)"),
    cl::value_desc("SIZE"), cl::cat(compileCategory));
IntegerOption microBatches(
    "microbatches",
    cl::desc("default number of micro-batches of the artifact (default: the number of stages)"),
    cl::value_desc("M"), cl::cat(compileCategory));
IntegerOption
    ranks("ranks",
          cl::desc("number of ranks for the stages (default: one per stage; with measured costs at "
                   "most one per core of the measuring machine, or per device of --cluster)"),
          cl::value_desc("R"), cl::cat(compileCategory));
StringListOption libraries("load-library", cl::desc("load custom operators; may be repeated"),
                           cl::value_desc("LIB.so"), cl::cat(compileCategory));
StringOption recordCase("record-case",
                        cl::desc("record the unsplit model's outputs on the example, one per "
                                 "micro-batch, as a case for pipe-check --case"),
                        cl::value_desc("DIR"), cl::cat(compileCategory));
StringOption dumpIr("dump-ir",
                    cl::desc("write the model's text after each pass that changed it, into a "
                             "directory without earlier dumps"),
                    cl::value_desc("DIR"), cl::cat(compileCategory));
FlagOption printPipeline("print-pipeline",
                         cl::desc("print the passes in the form that pipe-opt reads, with comments "
                                  "on what runs between them, and exit"),
                         cl::cat(compileCategory));
StringOption printAfter("print-after", cl::desc("print the model after a pass (or all) to stderr"),
                        cl::value_desc("PASS|all"), cl::cat(compileCategory));
FlagOption timing("timing", cl::desc("print the time of each pass to stderr"),
                  cl::cat(compileCategory));
FlagOption reproducerWeights(
    "reproducer-weights",
    cl::desc("after an internal error, include the model with its weights in the reproducer"),
    cl::cat(compileCategory));
FlagOption dryRun("dry-run", cl::desc("do everything except write the artifact"),
                  cl::cat(compileCategory));
FlagOption force("force", cl::desc("replace an existing artifact and existing dumps of --dump-ir"),
                 cl::cat(compileCategory));
FlagOption json("json", cl::desc("print one JSON document"), cl::cat(compileCategory));

CompileContext context() {
  return {.infer = infer, .dryRun = dryRun, .recordsCase = given(recordCase)};
}

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

/// Options that have no use without an example.
llvm::Error checkInputs() {
  if (!inputs.empty())
    return llvm::Error::success();
  for (const auto &[name, isGiven] : {std::pair("--verify run", verifyHow == "run"),
                                      {"--cost", given(cost)},
                                      {"--cost-budget", given(costBudget)},
                                      {"--cluster", given(cluster)},
                                      {"--emit-costs", given(emitCosts)},
                                      {"--memory-limit", given(memoryLimit)},
                                      {"--schedule auto", hasAutoSchedule()},
                                      {"--train", hasTrainFlag()},
                                      {"--record-case", given(recordCase)}})
    if (isGiven)
      return makeError(ExitCode::Usage, fmt::format("{}: expected example inputs, got none", name),
                       "pass example inputs with --inputs");
  return llvm::Error::success();
}

/// Options that contradict each other.
llvm::Error checkPairs() {
  if (given(costBudget) && given(cost) && cost != "measured")
    return makeError(ExitCode::Usage, "--cost-budget: expected --cost measured with it");
  if (given(recordCase) && dryRun)
    return makeError(ExitCode::Usage,
                     "--record-case: expected a compile that writes, got --dry-run",
                     "leave out one of the two");
  if (split == "at" && at.empty())
    return makeError(ExitCode::Usage, "--split at: expected modules, got none",
                     "name modules with --at");
  if (given(split) && split != "at" && !at.empty())
    return makeError(
        ExitCode::Usage,
        fmt::format("--at: expected --split at with it, got --split {}", split.getValue()),
        "leave one of the two out");
  return llvm::Error::success();
}

llvm::Error checkPassName() {
  std::string nearest;
  if (!given(printAfter) || printAfter == "all" || findPass(printAfter, &nearest))
    return llvm::Error::success();
  return makeError(
      ExitCode::Usage, "--print-after: expected a pass or all, got " + printAfter.getValue(),
      nearest.empty() ? "pipe-opt --list-passes names them" : "did you mean " + nearest + "?");
}

llvm::Expected<CompileOptions> readOptions() {
  CompileOptions options;
  for (const IntegerOption *option : {&stages, &microBatches, &ranks})
    TRY(within(*option, 1, kMostMicroBatches));
  options.verify = TRY(chooseByName<Verify>(
      "verify", verifyHow,
      {{"none", Verify::None}, {"graph", Verify::Graph}, {"run", Verify::Run}}));
  if (given(split))
    options.split = TRY(chooseByName<CutSource>(
        "split", split,
        {{"auto", CutSource::Auto}, {"markers", CutSource::Markers}, {"at", CutSource::At}}));
  TRY(checkPassName());
  TRY(checkInputs());
  TRY(checkPairs());
  if (given(memoryLimit) && memoryLimit.getValue() < 1)
    return makeError(ExitCode::Usage, "--memory-limit: expected at least 1 byte, got 0");
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
  TRY(readTraining(context(), options));
  return options;
}

InternalOptions readInternal(const std::vector<std::string> &words) {
  InternalOptions internal;
  internal.command = words;
  internal.makeHook = testHook;
  return internal;
}

} // namespace

llvm::Expected<CompileCommand> readCompileCommand(const std::vector<std::string> &words) {
  CompileOptions options = TRY(readOptions());
  InternalOptions internal = readInternal(words);
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
  command.timing = timing;
  return command;
}

llvm::json::Object optionsJson(const std::string &target, const CompileReport &report) {
  llvm::json::Object object{{"model", model.getValue()},
                            {"o", target},
                            {"at", llvm::json::Array(at)},
                            {"method", method.getValue()},
                            {"batch_dim", llvm::json::Array(batchDim)},
                            {"merge", llvm::json::Array(merge)},
                            {"tied", llvm::json::Array(tied)},
                            {"infer", infer.getValue()},
                            {"keep_eval", llvm::json::Array(keepEval)},
                            {"verify", verifyHow.getValue()},
                            {"microbatches", report.plan.microBatches},
                            {"ranks", static_cast<int64_t>(report.plan.ranks)},
                            {"load_library", llvm::json::Array(libraries)},
                            {"dry_run", dryRun.getValue()},
                            {"timing", timing.getValue()},
                            {"force", force.getValue()}};
  if (given(memoryLimit))
    object["memory_limit"] = static_cast<int64_t>(memoryLimit.getValue());
  if (given(costBudget))
    object["cost_budget_ms"] = inMilliseconds(static_cast<double>(costBudget.getValue()));
  noteTraining(context(), object);
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
                                     {"print_after", printAfter}})
    if (given(option))
      object[name] = option.getValue();
  return object;
}

} // namespace pipec
