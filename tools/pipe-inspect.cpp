// pipe-inspect: what is in an artifact, or in a TorchScript file.
#include "ir/artifact/ArtifactDir.h"
#include "ir/plan/Json.h"
#include "ir/plan/PlanNames.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/LoadLibrary.h"
#include "tools/ModuleTree.h"
#include "tools/PlanReport.h"
#include "tools/Table.h"
#include "tools/Timeline.h"
#include "tools/ToolMain.h"

using namespace pipec;
namespace cl = llvm::cl;

namespace {

StringOption model(cl::Positional, cl::Required, cl::value_desc("MODEL.pipe|MODEL.pt"),
                   cl::desc("an artifact, or a TorchScript file"));
FlagOption json("json", cl::desc("print one JSON document instead of the tables"));
FlagOption
    schedule("schedule",
             cl::desc("also draw the schedule: one row per rank, every action one step long"));
StringListOption libraries("load-library", cl::value_desc("LIB.so"),
                           cl::desc("load custom operators that a MODEL.pt uses"));

std::string batchText(const InputSpec &input) {
  return input.batchDim ? std::to_string(*input.batchDim) : "none";
}

std::string mergeText(const MergeRule &merge) {
  return merge.kind == MergeRule::Kind::Concat ? fmt::format("concat {}", merge.dim)
                                               : toString(merge.kind).str();
}

void printSignature(llvm::raw_ostream &out, const Signature &signature) {
  if (!signature.inputs.empty()) {
    out << "\n";
    printHeading(out, "inputs");
    Table table({{"input"}, {"type"}, {"shape"}, {"batch dimension"}, {"optional"}});
    for (const InputSpec &input : signature.inputs)
      table.addRow({input.name, input.type, input.tensor.known ? shapeOf(input.tensor) : "-",
                    batchText(input), input.defaultValue ? "yes" : ""});
    table.print(out);
  }
  out << "\n";
  printHeading(out, "outputs");
  Table table({{"leaf"}, {"type"}, {"shape"}, {"merged by"}});
  for (size_t l = 0; l < signature.leaves.size(); ++l)
    table.addRow({std::to_string(l), signature.leaves[l].type,
                  signature.leaves[l].tensor.known ? shapeOf(signature.leaves[l].tensor) : "-",
                  mergeText(signature.leaves[l].merge)});
  table.print(out);
}

void printArtifact(const Artifact &artifact, const std::string &timeline) {
  llvm::raw_ostream &out = llvm::outs();
  const Plan &plan = artifact.plan;
  out << model << ": " << plan.stages.size() << " stages on " << plan.ranks << " ranks, "
      << plan.scheduleName << ", " << plan.microBatches << " micro-batches by default, compiled to "
      << toString(plan.mode) << "\n";
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
  if (timeline.empty())
    return;
  out << "\n";
  printHeading(out, "schedule");
  out << timeline;
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

llvm::Expected<ExitCode> inspectArtifact() {
  llvm::Expected<Artifact> artifact = openArtifactPlan(model);
  if (!artifact)
    return artifact.takeError();
  for (const std::string &warning : artifact->warnings)
    printWarning(warning);
  const Plan &plan = artifact->plan;
  llvm::Expected<Schedule> rows = scheduleFromCsv(artifact->scheduleCsv);
  if (!rows)
    return rows.takeError();
  if (json) {
    llvm::outs() << printJson(
        llvm::json::Object{{"schema_version", 1},
                           {"options", llvm::json::Object{{"model", model.getValue()},
                                                          {"schedule", schedule.getValue()}}},
                           {"id", artifact->id},
                           {"source_digest", plan.sourceDigest},
                           {"mode", toString(plan.mode)},
                           {"stages", stagesJson(plan)},
                           {"channels", channelsJson(plan)},
                           {"ties", tiesJson(plan)},
                           {"batch", batchJson(plan)},
                           {"schedule", llvm::json::Object{{"name", plan.scheduleName},
                                                           {"microbatches", plan.microBatches},
                                                           {"actions", actionRows(*rows)}}}});
    return ExitCode::Success;
  }
  std::string timeline;
  if (schedule) {
    llvm::Expected<std::string> drawn = drawTimeline(*rows, plan);
    if (!drawn)
      return drawn.takeError();
    timeline = *drawn;
  }
  printArtifact(*artifact, timeline);
  return ExitCode::Success;
}

void printModules(const std::vector<ModuleNode> &modules) {
  Table table({{"module"},
               {"type"},
               {"parameters", Table::Right},
               {"bytes", Table::Right},
               {"buffers", Table::Right}});
  for (const ModuleNode &node : modules) {
    std::string name = node.path.empty() ? "(model)" : node.path.substr(node.path.rfind('.') + 1);
    table.addRow({std::string(2 * node.depth, ' ') + name, node.type, formatCount(node.parameters),
                  formatBytes(node.parameterBytes),
                  node.bufferBytes ? formatBytes(node.bufferBytes) : ""});
  }
  table.print(llvm::outs());
}

void printModulesJson(const std::vector<ModuleNode> &modules) {
  llvm::json::Array rows;
  for (const ModuleNode &node : modules)
    rows.push_back(llvm::json::Object{{"name", node.path},
                                      {"type", node.type},
                                      {"parameters", node.parameters},
                                      {"own_parameters", node.ownParameters},
                                      {"parameter_bytes", node.parameterBytes},
                                      {"buffer_bytes", node.bufferBytes},
                                      {"training", node.training},
                                      {"methods", llvm::json::Array(node.methods)}});
  llvm::outs() << printJson(
      llvm::json::Object{{"schema_version", 1},
                         {"options", llvm::json::Object{{"model", model.getValue()}}},
                         {"modules", std::move(rows)}});
}

llvm::Expected<ExitCode> inspectModel() {
  if (schedule)
    return makeError(ExitCode::Usage, "option --schedule: a TorchScript file has no schedule",
                     "compile it first, and inspect the artifact");
  for (const std::string &library : libraries)
    if (llvm::Error error = loadLibrary(library))
      return error;
  llvm::Expected<std::vector<ModuleNode>> modules = readModuleTree(model);
  if (!modules)
    return modules.takeError();
  if (json)
    printModulesJson(*modules);
  else
    printModules(*modules);
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
       {"pipe-inspect model.pipe --schedule", "pipe-inspect model.pt"}},
      run);
}
