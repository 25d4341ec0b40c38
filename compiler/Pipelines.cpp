#include "compiler/Pipelines.h"

#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/ChooseCuts.h"
#include "passes/LegaliseCuts.h"
#include "passes/LowerAttributes.h"
#include "passes/ResolveTies.h"
#include "passes/analysis/ModuleNames.h"

#include <fmt/format.h>

namespace pipec {

namespace {

LowerAttributesOptions lowering(const CompileOptions &options) {
  LowerAttributesOptions result;
  if (options.trainingFlag != TrainingFlag::Saved)
    result.training = options.trainingFlag == TrainingFlag::True;
  result.keepEval = options.keepEval;
  return result;
}

/// Given cuts may move. Cuts of a planner are at legal places already.
bool mayMoveCuts(const CompileOptions &options, const PlannedCuts &planned) {
  return options.nearest && planned.places.empty();
}

ChooseCutsOptions choice(const CompileOptions &options, const PlannedCuts &planned) {
  ChooseCutsOptions result;
  bool markers = false;
  for (const Cut &cut : options.cuts) {
    if (const auto *module = std::get_if<AtModule>(&cut))
      result.at.push_back(module->name);
    markers |= std::holds_alternative<AtMarker>(cut);
  }
  result.split = options.split;
  if (markers && !options.split)
    result.split = CutSource::Markers;
  result.nearest = mayMoveCuts(options, planned);
  result.stages = options.stages;
  result.places = planned.places;
  result.order = planned.order;
  return result;
}

/// checkNames has refused what cannot be set.
ResolveTiesOptions ties(const CompileOptions &options) {
  ResolveTiesOptions result;
  for (const auto &[name, mode] : options.tied)
    llvm::cantFail(result.add(name, mode));
  return result;
}

} // namespace

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
      TRY(check("--at", module->name));
      if (llvm::Error error = checkModuleName(module->name))
        return withContext(std::move(error), "--at");
    }
  for (const std::string &name : options.keepEval)
    TRY(check("--keep-eval", name));
  ResolveTiesOptions ties;
  for (const auto &[name, mode] : options.tied) {
    TRY(check("--tied", name));
    TRY(ties.add(name, mode));
  }
  return llvm::Error::success();
}

PassPipeline frontPipeline(const CompileOptions &options) {
  PassPipeline steps = {
      "inline",
      // Before anything is removed: a marker counts even if its result is unused.
      "resolve-markers",
      lowering(options),
  };
  // An evaluation names weights as its training does. Inference keeps the lists: artifacts that
  // were made before have them.
  if (options.mode == Mode::Train || options.evaluation)
    steps.push_back("open-weight-lists");
  llvm::append_range(steps, PassPipeline{
                                "simplify",
                                // Once the tuples of inner modules are gone, the remaining one is
                                // the model's own result.
                                "split-outputs",
                                // The operators that built the result are dead now.
                                "simplify",
                            });
  return steps;
}

PassPipeline typedPipeline() { return {"simplify", "split-outputs", "simplify", "split-branches"}; }

PassPipeline cutPipeline(const CompileOptions &options, const PlannedCuts &cuts) {
  LegaliseCutsOptions legalise;
  legalise.nearest = mayMoveCuts(options, cuts);
  return {choice(options, cuts), legalise};
}

PassPipeline stagePipeline(const CompileOptions &options, const PlannedCuts &cuts) {
  PassPipeline steps = cutPipeline(options, cuts);
  llvm::append_range(steps, PassPipeline{
                                "rematerialise",
                                "insert-transfers",
                                // After the cut: only now is it known which stages use a weight.
                                ties(options),
                            });
  return steps;
}

/// Steps between the passes need the model's file or example inputs, which text does not have. The
/// text has them as comments.
std::string wholePipelineText(const CompileOptions &options, const PlannedCuts &cuts) {
  const bool hasInputs = !options.inputs.empty();
  std::string text = pipelineText(frontPipeline(options)) + ",\n";
  if (hasInputs)
    text += fmt::format("# With types from the example inputs, repeated up to {} times until "
                        "nothing changes; then the types are dropped:\n{},\n",
                        kTypedRounds, pipelineText(typedPipeline()));
  text += "# The graph is written as a TorchScript file and read back.\n";
  if (cuts.places.empty() && hasInputs && options.cuts.empty() &&
      options.split.value_or(CutSource::Auto) == CutSource::Auto)
    text +=
        "# Automatic cuts only: each operator gets its cost from a run on the example inputs (in "
        "text, the entity `costs`), and the planner passes the cut positions to choose-cuts.\n";
  return text + pipelineText(stagePipeline(options, cuts));
}

} // namespace pipec
