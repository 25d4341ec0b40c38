#include "compiler/Pipelines.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/Llvm.h"
#include "ir/support/Runs.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/ModuleNames.h"

#include <fmt/format.h>

namespace pipec {

namespace {

std::string withOptions(const std::string &pass, const std::vector<std::string> &options) {
  return options.empty() ? pass : pass + "{" + llvm::join(options, ",") + "}";
}

std::string lowering(const CompileOptions &options) {
  std::vector<std::string> list;
  if (options.trainingFlag == TrainingFlag::False)
    list.push_back("training=false");
  if (options.trainingFlag == TrainingFlag::True)
    list.push_back("training=true");
  if (!options.keepEval.empty())
    list.push_back("keep-eval=" + llvm::join(options.keepEval, ":"));
  return withOptions("lower-attributes", list);
}

/// Given cuts may move. Cuts of a planner are at legal places already.
bool mayMoveCuts(const CompileOptions &options, const PlannedCuts &planned) {
  return options.nearest && planned.places.empty();
}

std::string chooseCutsText(const CompileOptions &options, const PlannedCuts &planned) {
  std::vector<std::string> names, list;
  bool markers = false;
  for (const Cut &cut : options.cuts) {
    if (const auto *module = std::get_if<AtModule>(&cut))
      names.push_back(module->name);
    markers |= std::holds_alternative<AtMarker>(cut);
  }
  if (!names.empty())
    list.push_back("at=" + llvm::join(names, ":"));
  if (options.split)
    list.push_back("split=" + toString(*options.split).str());
  else if (markers)
    list.push_back("split=markers");
  if (mayMoveCuts(options, planned))
    list.push_back("place=nearest");
  if (options.stages)
    list.push_back("stages=" + std::to_string(options.stages));
  if (!planned.places.empty()) {
    std::vector<std::string> texts;
    for (size_t place : planned.places)
      texts.push_back(std::to_string(place));
    list.push_back("places=" + llvm::join(texts, ":"));
  }
  if (!planned.order.empty())
    list.push_back("order=" + llvm::join(runsOf(planned.order), ":"));
  return withOptions("choose-cuts", list);
}

std::string ties(const CompileOptions &options) {
  std::vector<std::string> names, list;
  for (const auto &[name, mode] : options.tied) {
    const std::string text = toString(mode).str();
    if (name.empty())
      list.push_back("mode=" + text);
    else
      names.push_back(name + "/" + text);
  }
  if (!names.empty())
    list.push_back("names=" + llvm::join(names, ":"));
  return withOptions("resolve-ties", list);
}

} // namespace

llvm::StringRef toString(CutSource source) {
  switch (source) {
  case CutSource::Auto:
    return "auto";
  case CutSource::Markers:
    return "markers";
  case CutSource::At:
    return "at";
  }
  llvm_unreachable("unknown source of cuts");
}

llvm::Error checkNames(const CompileOptions &options) {
  auto check = [](const char *option, llvm::StringRef name) -> llvm::Error {
    if (name.find_first_of(",:}") == llvm::StringRef::npos && !startsWith(name, "["))
      return llvm::Error::success();
    return makeError(
        ExitCode::Usage,
        fmt::format("{}: expected a name without , : }} and [, got {}", option, name.str()),
        "rename the module in the model");
  };
  for (const Cut &cut : options.cuts)
    if (const auto *module = std::get_if<AtModule>(&cut)) {
      if (llvm::Error error = check("--at", module->name))
        return error;
      if (llvm::Error error = checkModuleName(module->name))
        return withContext(std::move(error), "--at");
    }
  for (const std::string &name : options.keepEval)
    if (llvm::Error error = check("--keep-eval", name))
      return error;
  for (const auto &[name, mode] : options.tied)
    if (llvm::Error error = check("--tied", name))
      return error;
  return llvm::Error::success();
}

std::string frontPipeline(const CompileOptions &options) {
  // An evaluation names weights as its training does.
  const bool trains = options.mode == Mode::Train || options.evaluation;
  return llvm::join(
      std::vector<std::string>{
          "inline",
          // Before anything is removed: a marker counts even if its result is unused.
          "resolve-markers",
          // Inference keeps the lists: artifacts that were made before have them.
          lowering(options) + (trains ? ",open-weight-lists" : ""),
          "simplify",
          // Once the tuples of inner modules are gone, the remaining one is the model's own result.
          "split-outputs",
          // The operators that built the result are dead now.
          "simplify",
      },
      ",");
}

std::string typedPipeline() { return "simplify,split-outputs,simplify,split-branches"; }

std::string cutPipeline(const CompileOptions &options, const PlannedCuts &cuts) {
  return chooseCutsText(options, cuts) + "," +
         withOptions("legalise-cuts", mayMoveCuts(options, cuts)
                                          ? std::vector<std::string>{"place=nearest"}
                                          : std::vector<std::string>{});
}

std::string stagePipeline(const CompileOptions &options, const PlannedCuts &cuts) {
  return llvm::join(
      std::vector<std::string>{
          cutPipeline(options, cuts),
          "rematerialise",
          "insert-transfers",
          // After the cut: only now is it known which stages use a weight.
          ties(options),
      },
      ",");
}

/// Steps between the passes need the model's file or example inputs, which text does not have. The
/// text has them as comments.
std::string wholePipeline(const CompileOptions &options, const PlannedCuts &cuts) {
  const bool hasInputs = !options.inputs.empty();
  std::string text = frontPipeline(options) + ",\n";
  if (hasInputs)
    text += fmt::format("# With types from the example inputs, repeated up to {} times until "
                        "nothing changes; then the types are dropped:\n{},\n",
                        kTypedRounds, typedPipeline());
  text += "# The graph is written as a TorchScript file and read back.\n";
  if (cuts.places.empty() && hasInputs && options.cuts.empty() &&
      options.split.value_or(CutSource::Auto) == CutSource::Auto)
    text +=
        "# Automatic cuts only: each operator gets its cost from a run on the example inputs (in "
        "text, the entity `costs`), and the planner passes the cut positions to choose-cuts.\n";
  return text + stagePipeline(options, cuts);
}

} // namespace pipec
