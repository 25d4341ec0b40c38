// pipe-inspect: shows the content of an artifact or of a TorchScript file.
#include "compiler/cost/ModuleCosts.h"
#include "ir/artifact/ArtifactCheck.h"
#include "ir/plan/PlanNames.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/TorchComms.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/ModuleTree.h"
#include "tools/report/PlanPage.h"
#include "tools/report/PlanReport.h"
#include "tools/report/StageModules.h"
#include "tools/report/Table.h"
#include "tools/report/TimeChart.h"
#include "tools/report/Timeline.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption model(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe|MODEL.pt"),
                   cl::desc("an artifact, or a TorchScript file"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));
FlagOption schedule("schedule", cl::desc("also draw the schedule: one row per rank, with predicted "
                                         "times, or one step per action if the plan has no costs"));
StringOption html(
    "html", cl::value_desc("FILE"),
    cl::desc(
        "write one HTML page about an artifact: stages and channels, load and memory, the schedule "
        "over time, what is proved, modules; the page needs no other file and no script"));
StringOption trace("trace", cl::value_desc("FILE.json"),
                   cl::desc("with --html: a trace that pipe-run --trace wrote; the page shows the "
                            "measured step and the simulated one"));
StringOption comms("comms", cl::value_desc("FILE"),
                   cl::desc("write the schedule of an artifact as PyTorch's table with sends and "
                            "receives (compute_comms), which PyTorch runs unchanged; exits 2 if a "
                            "channel does not go to the next stage or transmits a weight"));
FlagOption force("force", cl::desc("replace existing files of --html and --comms"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that a MODEL.pt or the stages of an "
                                    "artifact use"));
StringOption inputs("inputs", cl::value_desc("FILE|TEXT"),
                    cl::desc("example inputs of a MODEL.pt, as for pipe-compile: adds a column "
                             "with each module's share of the estimated cost"));
StringOption method("method", cl::value_desc("NAME"), cl::init("forward"),
                    cl::desc("method of a MODEL.pt that gets the --inputs (default: forward)"));
using Costs = std::map<std::string, int64_t>; // by module path

void printSignature(llvm::raw_ostream &out, const Signature &signature) {
  if (!signature.inputs.empty()) {
    out << "\n";
    printHeading(out, "inputs");
    inputsTable(signature).print(out);
    if (const std::string sizes = sizesSentence(signature); !sizes.empty())
      out << sizes << "\n";
  }
  out << "\n";
  printHeading(out, "outputs");
  outputsTable(signature).print(out);
}

void printArtifact(const Artifact &artifact, const std::string &timeline) {
  llvm::raw_ostream &out = toStdout();
  const Plan &plan = artifact.plan;
  out << model << ": " << counted(plan.stages.size(), "stage") << " on "
      << counted(plan.ranks, "rank") << ", " << plan.scheduleName << ", "
      << counted(plan.microBatches, "micro-batch") << " by default, compiled for "
      << (plan.mode == Mode::Train ? "training" : "inference") << "\n";
  out << "artifact " << artifact.id.substr(0, 12) << " of source "
      << plan.sourceDigest.substr(0, 19) << ", made by pipec " << plan.toolVersion
      << " with LibTorch " << plan.torchVersion << "\n\n";
  printStages(out, plan);
  if (!plan.channels.empty())
    out << "\n";
  printChannels(out, plan);
  if (!plan.ties.empty())
    out << "\n";
  printTies(out, plan);
  printSignature(out, plan.signature);
  out << "\n";
  printStageModules(out, plan);
  if (timeline.empty())
    return;
  out << "\n";
  printHeading(out, "schedule");
  printPainted(out, timeline);
}

/// If operators were measured or read from a table, the artifact has their costs.
llvm::Expected<std::optional<CostTable>> costsIn(const std::string &directory) {
  constexpr llvm::StringLiteral kName = "costs.json";
  auto buffer = llvm::MemoryBuffer::getFile(directory + "/" + kName);
  if (!buffer)
    return std::nullopt;
  llvm::Expected<CostTable> table = costTableFromJson((*buffer)->getBuffer(), kName.str());
  if (!table)
    return makeError(ExitCode::BadArtifact, describe(table.takeError()).message);
  return std::move(*table);
}

llvm::Expected<std::string> drawSchedule(const Plan &plan, const Schedule &rows) {
  PlanTiming timed = TRY(timePlan(plan, rows, plan.microBatches));
  std::optional<CostTable> costs = TRY(costsIn(model));
  timed.atOnce = costs ? costs->atOnce : 0;
  if (!timed.known)
    return drawTimeline(rows, plan);
  const Timing &timing = timed.timing;
  return fmt::format(
      "{}\n  step {}, bubble {:.1f} %, lower bound {}: predicted from {}\n",
      drawTimeChart(rows, timing, {100, usesColour(toStdout()), "--html FILE draws every name"}),
      formatDuration(timing.makespan), 100 * timing.bubbleMakespan(),
      formatDuration(timed.lowerBound), whatTimesRestOn(timed));
}

llvm::json::Value actionRows(const Schedule &rows) {
  llvm::json::Array ranks;
  for (const std::vector<Action> &actions : rows.ranks) {
    llvm::json::Array row;
    for (const Action &action : actions)
      row.push_back(toString(action));
    ranks.push_back(std::move(row));
  }
  return ranks;
}

llvm::Expected<MeasuredRun> readTrace(const Plan &plan) {
  auto buffer = llvm::MemoryBuffer::getFile(trace);
  if (!buffer)
    return withContext(cannotRead(trace, buffer.getError()), "--trace");
  llvm::Expected<MeasuredRun> run = measuredRunFrom((*buffer)->getBuffer(), trace, plan);
  if (!run)
    return withContext(run.takeError(), "--trace");
  return run;
}

/// The page also shows the problems of an artifact.
llvm::Error writePage(const Artifact &artifact, const Schedule &rows) {
  TRY(refuseExisting(html, force));
  std::optional<CostTable> costs = TRY(costsIn(model));
  constexpr int64_t kMostActions = 20'000; // with more, browsers get slow
  const auto stages = static_cast<int64_t>(artifact.plan.stages.size());
  PlanTiming timing =
      TRY(timePlan(artifact.plan, rows, std::max<int64_t>(1, kMostActions / stages)));
  timing.atOnce = costs ? costs->atOnce : 0;
  const ArtifactCheck check = checkArtifact(model);
  const WholeModule modules = wholeTree(artifact.plan, costs);
  std::optional<MeasuredRun> measured;
  if (given(trace))
    measured = TRY(readTrace(artifact.plan));
  llvm::StringRef name = llvm::StringRef(model).rtrim('/');
  TRY(writeFileFor(html,
                   htmlPage({llvm::sys::path::filename(name).str(), artifact, check, timing,
                             modules, measured ? &*measured : nullptr}),
                   force));
  if (check.findings.empty())
    return llvm::Error::success();
  return makeError(ExitCode::BadArtifact, model + ": " + check.findings.front().message,
                   "run pipe-check for all findings");
}

llvm::Error writeTorchComms(const Plan &plan, const Schedule &rows) {
  RunShape shape;
  shape.microBatches = plan.microBatches;
  llvm::Expected<Program> program = lower(rows, plan, shape);
  if (!program)
    return makeError(ExitCode::BadArtifact, describe(program.takeError()).message);
  llvm::Expected<Schedule> table = toTorchComms(*program, plan);
  if (!table)
    return withContext(table.takeError(), "--comms");
  return writeFileFor(comms, toCsv(*table), force);
}

llvm::Expected<ExitCode> inspectArtifact() {
  if (given(trace) && !given(html))
    return makeError(ExitCode::Usage, "--trace: expected --html with it, got none",
                     "the page of --html shows the trace");
  for (const StringOption *option : {&inputs, &method})
    if (given(*option))
      return makeError(ExitCode::Usage,
                       spelledOption(option->ArgStr) +
                           ": expected a TorchScript file, got an artifact",
                       "an artifact has the costs of its compile");
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  // Compares every digest, because a damaged artifact may describe itself wrongly. So may one whose
  // MANIFEST was forged, so the stages are checked too, except for the page, which shows the
  // problems.
  Artifact artifact = TRY(openArtifact(model));
  if (!given(html))
    TRY(checkParts(artifact, artifact.warnings));
  for (const std::string &warning : artifact.warnings)
    printWarning(warning);
  const Plan &plan = artifact.plan;
  Schedule rows = TRY(scheduleFromCsv(artifact.scheduleCsv));
  if (given(comms))
    TRY(writeTorchComms(plan, rows));
  if (given(html))
    TRY(writePage(artifact, rows));
  if (json) {
    toStdout() << printJson(
        llvm::json::Object{{"schema_version", 1},
                           {"options", llvm::json::Object{{"model", model.getValue()},
                                                          {"schedule", schedule.getValue()}}},
                           {"id", artifact.id},
                           {"source_digest", plan.sourceDigest},
                           {"mode", toString(plan.mode)},
                           {"stages", stagesJson(plan)},
                           {"channels", channelsJson(plan)},
                           {"ties", tiesJson(plan)},
                           {"modules", stageModulesJson(plan)},
                           {"batch", batchJson(plan)},
                           {"schedule", llvm::json::Object{{"name", plan.scheduleName},
                                                           {"microbatches", plan.microBatches},
                                                           {"actions", actionRows(rows)}}}});
    return ExitCode::Success;
  }
  std::string timeline;
  if (schedule) {
    std::string drawn = TRY(drawSchedule(plan, rows));
    timeline = drawn;
  }
  printArtifact(artifact, timeline);
  return ExitCode::Success;
}

int64_t costOf(const Costs &costs, const std::string &path) {
  auto found = costs.find(path);
  return found == costs.end() ? 0 : found->second;
}

void printModules(const std::vector<ModuleNode> &modules, const std::optional<Costs> &costs) {
  std::vector<Table::Column> columns = {{"module"},
                                        {"type"},
                                        {"parameters", Table::Right},
                                        {"bytes", Table::Right},
                                        {"buffers", Table::Right}};
  if (costs)
    columns.push_back({"cost", Table::Right});
  Table table(columns);
  for (const ModuleNode &node : modules) {
    std::string name = node.path.empty() ? "(model)" : node.path.substr(node.path.rfind('.') + 1);
    std::vector<std::string> row = {std::string(2 * node.depth, ' ') + name, node.type,
                                    formatCount(node.parameters), formatBytes(node.parameterBytes),
                                    node.bufferBytes ? formatBytes(node.bufferBytes) : ""};
    int64_t cost = costs ? costOf(*costs, node.path) : 0;
    if (cost)
      row.push_back(fmt::format("{:.1f} %", 100.0 * double(cost) / double(costOf(*costs, ""))));
    table.addRow(std::move(row));
  }
  table.print(toStdout());
}

void printModulesJson(const std::vector<ModuleNode> &modules, const std::optional<Costs> &costs) {
  llvm::json::Array rows;
  for (const ModuleNode &node : modules) {
    llvm::json::Object row{{"name", node.path},
                           {"type", node.type},
                           {"parameters", node.parameters},
                           {"own_parameters", node.ownParameters},
                           {"parameter_bytes", node.parameterBytes},
                           {"buffer_bytes", node.bufferBytes},
                           {"training", node.training},
                           {"methods", llvm::json::Array(node.methods)}};
    if (costs)
      row["cost_flops"] = costOf(*costs, node.path);
    rows.push_back(std::move(row));
  }
  llvm::json::Object options{{"model", model.getValue()},
                             {"method", method.getValue()},
                             {"load_library", llvm::json::Array(libraries)}};
  if (given(inputs))
    options["inputs"] = inputs.getValue();
  toStdout() << printJson(llvm::json::Object{
      {"schema_version", 1}, {"options", std::move(options)}, {"modules", std::move(rows)}});
}

llvm::Expected<ExitCode> inspectModel() {
  for (const auto &[option, asked] : {std::pair{"--schedule", schedule.getValue()},
                                      {"--html", given(html)},
                                      {"--trace", given(trace)},
                                      {"--comms", given(comms)}})
    if (asked && llvm::sys::fs::exists(model))
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected an artifact, got a TorchScript file", option),
                       "compile it first, then inspect the artifact");
  if (given(method) && !given(inputs))
    return makeError(
        ExitCode::Usage, "--method: expected --inputs with it, got none",
        "--method chooses which method gets the inputs; the modules are those of the file");
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  std::vector<ModuleNode> modules = TRY(readModuleTree(model));
  std::optional<Costs> costs;
  if (given(inputs)) {
    sendModelPrintsToStderr();
    costs = TRY(moduleCosts(model, method, inputs));
  }
  if (json)
    printModulesJson(modules, costs);
  else
    printModules(modules, costs);
  return ExitCode::Success;
}

llvm::Expected<ExitCode> run() {
  return llvm::sys::fs::is_directory(model) ? inspectArtifact() : inspectModel();
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(
      argc, argv,
      {"pipe-inspect",
       "shows what is in an artifact (stages, channels, ties) or in a TorchScript file (modules)",
       "MODEL.pipe|MODEL.pt [options]",
       {"pipe-inspect model.pipe --schedule", "pipe-inspect model.pipe --html model.html",
        "pipe-inspect model.pt", "pipe-inspect model.pt --inputs 'f32[8,3,224,224]'"},
       [] { return artifactParts(model); }},
      run);
}
