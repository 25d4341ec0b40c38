#include "passes/PassManager.h"

#include "ir/Verify.h"
#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/Fingerprint.h"
#include "passes/Registry.h"

#include <chrono>

namespace pipec {
namespace {

/// The limit of rounds of a group. Each round must shrink or refine the graph, so a group that
/// needs more will never settle.
constexpr int kMaxRounds = 100;

llvm::Error verifyAny(const AnyModel &model) {
  return std::visit([](const auto &kind) { return verify(kind); }, model);
}

llvm::Error wrongKind(const std::string &pass, bool staged) {
  return makeError(ExitCode::Usage,
                   fmt::format("pass {} works on {}, got {}", pass,
                               staged ? "a model" : "a staged model",
                               staged ? "a staged model" : "a model"),
                   staged ? "run it before the split" : "run it after the split");
}

/// Runs a new pass on its kind of model.
struct Runner {
  AnyModel &model;
  PassContext &context;
  const PipelineStep &step;
  const std::string text = pipelineText(step);

  llvm::Expected<bool> operator()(const MakePass<ModelPass> &make) { return runOn<Model>(make); }
  llvm::Expected<bool> operator()(const MakePass<StagedPass> &make) {
    return runOn<StagedModel>(make);
  }
  llvm::Expected<bool> operator()(const MakePass<SplitPass> &make) {
    if (!std::holds_alternative<Model>(model))
      return wrongKind(text, /*staged=*/true);
    if (!std::get<Model>(model).self.isNone())
      return makeError(ExitCode::Usage,
                       fmt::format("pass {} works on a model whose attributes are lowered, got a "
                                   "module",
                                   text),
                       "run inline,lower-attributes before it");
    model = TRY(make(step.options.get())->run(std::move(std::get<Model>(model)), context));
    return true;
  }
  llvm::Expected<bool> operator()(const PassGroup &) { llvm_unreachable("groups are opened"); }

private:
  template <typename Kind, typename Make> llvm::Expected<bool> runOn(const Make &make) {
    if (!std::holds_alternative<Kind>(model))
      return wrongKind(text, std::holds_alternative<StagedModel>(model));
    return make(step.options.get())->run(std::get<Kind>(model), context);
  }
};

} // namespace

void PassManager::add(const PassPipeline &steps) { llvm::append_range(steps_, steps); }

llvm::Error PassManager::addPipeline(llvm::StringRef text) {
  const PassPipeline steps = TRY(parsePipeline(text, options_.registry));
  add(steps);
  return llvm::Error::success();
}

llvm::Expected<bool> PassManager::run(AnyModel &model, PassContext &context) {
  context_ = &context;
  changes_ = 0;
  settledAt_.clear();
  context.aliases = &aliases_;
  auto forget = atScopeEnd([&] {
    context.aliases = nullptr;
    aliases_.reset();
  });
  if (options_.verifyEach)
    if (llvm::Error error = verifyAny(model))
      return withContext(std::move(error), "before the first pass");
  if (options_.checkHonesty)
    fingerprint_ = fingerprint(model, context);
  return runSteps(steps_, model);
}

llvm::Expected<bool> PassManager::runSteps(llvm::ArrayRef<PipelineStep> steps, AnyModel &model) {
  bool changed = false;
  for (const PipelineStep &step : steps) {
    bool stepChanged = TRY(runStep(step, model));
    changed |= stepChanged;
  }
  return changed;
}

llvm::Expected<bool> PassManager::run(AnyModel &model) {
  PassContext context;
  return run(model, context);
}

llvm::Expected<bool> PassManager::runStep(const PipelineStep &step, AnyModel &model) {
  if (step.isGroup())
    return runGroup(step, model);
  const PassInfo *info = findPass(options_.registry, step.name);
  PIPEC_ASSERT(info, "parsePipeline refuses unknown passes, and our own pipelines have none");
  const auto *group = std::get_if<PassGroup>(&info->make);
  return group ? runNamedGroup(*info, *group, model) : runPass(step, model);
}

/// Runs, verifies and times its passes like any others.
llvm::Expected<bool> PassManager::runNamedGroup(const PassInfo &info, const PassGroup &group,
                                                AnyModel &model) {
  llvm::Expected<bool> changed = runSteps(group.steps, model);
  if (changed && options_.printAfter == info.name)
    print(info.name.str(), *changed, model);
  return changed;
}

llvm::Expected<bool> PassManager::runGroup(const PipelineStep &group, AnyModel &model) {
  bool changedEver = false;
  std::string last;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (const PipelineStep &step : group.body) {
      bool stepChanged = TRY(runStep(step, model));
      if (stepChanged)
        last = step.name;
      changed |= stepChanged;
    }
    if (!changed)
      return changedEver;
    changedEver = true;
  }
  return failf(ExitCode::Internal,
               "{} does not converge: pass {} still changes the model in round {}",
               pipelineText(group), last, kMaxRounds);
}

llvm::Expected<bool> PassManager::runPass(const PipelineStep &step, AnyModel &model) {
  PassRun run;
  run.text = pipelineText(step);
  run.info = findPass(options_.registry, step.name);
  run.model = &model;
  run.context = context_;
  auto settled = settledAt_.find(run.text);
  const bool isSettled = settled != settledAt_.end() && settled->second == changes_;
  if (!isSettled || options_.checkHonesty)
    TRY(runNow(step, run, model));
  if (isSettled && run.changed)
    return failf(ExitCode::Internal,
                 "pass {} changed a model that it had left unchanged the last time", run.text);
  printAfter(run);
  TRY(checkAfter(run));
  if (options_.afterPass)
    TRY(options_.afterPass(run));
  return run.changed;
}

llvm::Error PassManager::runNow(const PipelineStep &step, PassRun &run, AnyModel &model) {
  const auto start = std::chrono::steady_clock::now();
  run.changed = TRY(std::visit(Runner{model, *context_, step}, run.info->make));
  run.ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  addTimes(times_, {{run.info->name.str(), 1, size_t(run.changed), run.ns}});
  if (run.changed) {
    ++changes_;
    aliases_.reset();
  } else {
    settledAt_[run.text] = changes_;
  }
  return llvm::Error::success();
}

llvm::Error PassManager::checkAfter(const PassRun &run) {
  if (options_.checkHonesty)
    TRY(checkHonesty(run));
  if (!run.changed || !options_.verifyEach)
    return llvm::Error::success();
  if (llvm::Error error = verifyAny(*run.model))
    return failf(ExitCode::Internal, "pass {} left a model that is not valid: {}", run.text,
                 describe(std::move(error)).message);
  return llvm::Error::success();
}

/// Both false reports are costly: a hidden change is neither verified nor printed, and a pass that
/// always reports a change keeps its group from settling.
llvm::Error PassManager::checkHonesty(const PassRun &run) {
  std::string after = fingerprint(*run.model, *run.context);
  const bool changed = after != fingerprint_;
  fingerprint_ = std::move(after);
  if (changed && !run.changed)
    return failf(ExitCode::Internal, "pass {} changed the model but reported no change", run.text);
  if (!changed && run.changed)
    return failf(ExitCode::Internal, "pass {} reported a change but did not change the model",
                 run.text);
  return llvm::Error::success();
}

void PassManager::printAfter(const PassRun &run) {
  const bool asked = options_.printAfter == "all" || options_.printAfter == run.info->name;
  if (asked || (options_.printChanged && run.changed))
    print(run.text, run.changed, *run.model);
}

void PassManager::print(const std::string &step, bool changed, const AnyModel &model) const {
  llvm::raw_ostream &out = options_.out ? *options_.out : toStderr();
  out << "# after " << step << (changed ? "" : ": no change") << "\n"
      << structureText(model, &context_->costs) << "# -----\n";
}

} // namespace pipec
