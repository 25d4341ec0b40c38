#include "compiler/CompileRun.h"

#include "compiler/GivenSchedule.h"
#include "compiler/Pipelines.h"
#include "compiler/TrainedParameters.h"
#include "compiler/TrainingSchedule.h"
#include "compiler/cost/EstimateCosts.h"
#include "compiler/cost/GraphEvaluator.h"
#include "ir/MarkerOps.h"
#include "ir/OwnGraph.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/WholeBackwards.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/schedule/Program.h"
#include "ir/support/Try.h"
#include "ir/support/Version.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/LongStages.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

namespace {

void markWhere(Model &model, const std::vector<CutPredicate> &predicates) {
  markBoundaries(model, [&](const std::string &op, const std::string &modulePath, size_t index) {
    return llvm::any_of(predicates, [&](const CutPredicate &predicate) {
      return predicate({op, modulePath, index});
    });
  });
}

size_t namedCuts(const CompileOptions &options) {
  return llvm::count_if(options.cuts,
                        [](const Cut &cut) { return std::holds_alternative<AtModule>(cut); });
}

/// The required number of stages, counted independently of the passes that make them.
size_t requestedStages(const CompileOptions &options, const Model &model) {
  if (options.stages != 0)
    return options.stages;
  if (const size_t names = namedCuts(options); names != 0)
    return names + 1;
  const TopLevel top = topLevelOf(model);
  std::set<size_t> places(top.boundaries.begin(), top.boundaries.end());
  // A marker inside control flow counts before that operator. No cut is possible before the first
  // operator, so a marker inside it counts after it, unless nothing precedes the marker.
  for (size_t i = 1; i < top.operators.size(); ++i)
    if (holdsBoundary(top.operators[i]))
      places.insert(i);
  if (!top.operators.empty() && firstInside(top.operators[0], [&](torch::jit::Node *node) {
        return node->kind() == cutSymbol() && !isFirstInBlocks(node, top.operators[0]);
      }))
    places.insert(1);
  places.erase(0);
  places.erase(top.operators.size()); // no operator follows it
  return places.size() + 1;
}

} // namespace

CompileRun::CompileRun(const std::string &path, const CompileOptions &options,
                       const InternalOptions &internal)
    : path_(path), options_(options), internal_(internal),
      hook_(internal.makeHook ? internal.makeHook() : std::make_unique<CompileHook>()),
      dumps_(options.dumpDir), phases_(report_, options.progress),
      frontEnd_(path, options, dumps_, phases_, hook_->passes()) {}

llvm::Error CompileRun::compile(ArtifactWriter &writer) {
  Staged staged = TRY(stage());
  TRY(writeStages(staged, writer));
  Plan plan = planOf(staged.model);
  if (loss_) {
    plan.training = TRY(trainingPlanOf(staged.model, plan, *loss_, frontEnd_.source()));
    plan.training->recompute = recomputedStages(options_, planning_.training(), plan);
    if (!options_.splitBackward)
      plan.training->whyWhole.assign(plan.stages.size(), kWholeAsAsked);
    TRY(hook_->beforeTraining(plan));
  }
  TRY(prove(staged, plan, writer));
  TRY(planning_.placeStages(plan, report_));
  TRY(addEvaluation(staged.model, plan, writer));
  return writePlan(plan, writer);
}

llvm::Error CompileRun::publish(ArtifactWriter &writer) {
  TRY(writer.publish(/*isLast=*/true));
  phases_.end("publish");
  return llvm::Error::success();
}

llvm::Error CompileRun::stageOnly() { return stage().takeError(); }

std::string CompileRun::pipelineText() const {
  return wholePipelineText(options_, planning_.cuts());
}

/// Runs all passes, and the source on the example.
llvm::Expected<CompileRun::Staged> CompileRun::stage() {
  TRY(planning_.begin(options_));
  if (!options_.dumpDir.empty())
    TRY(dumps_.prepare(options_.replaceDumps));
  Source source = TRY(frontEnd_.study());
  TRY(findLoss(source.model.signature, source.study.shown));
  TRY(plan(source));
  return cutSource(std::move(source));
}

llvm::Expected<CompileRun::Staged> CompileRun::cutSource(Source source) {
  phases_.begin("cutting");
  SourceRecord record = recordSource(source.model);
  decisions_ = std::move(source.context.answers.decisions);
  if (!options_.dumpDir.empty() || !options_.printAfter.empty()) {
    finish(record); // the following passes need its text
    source.model.sourceDigest = record.digest;
  }
  phases_.end("record the source");
  StagedModel staged = TRY(cut(std::move(source.model), source.context));
  llvm::append_range(report_.notes, source.context.notes);
  report_.results = std::move(source.study.results);
  norms_ = std::move(source.study.norms);
  report_.sizeLinks = std::move(source.study.sizeLinks);
  report_.partSizes = std::move(source.study.partSizes);
  llvm::append_range(report_.warnings, source.context.warnings);
  return Staged{std::move(staged), std::move(source.study.runs), std::move(record)};
}

llvm::Error CompileRun::plan(Source &source) {
  if (options_.inputs.empty()) // without inputs, operators have no costs
    return llvm::Error::success();
  std::optional<std::vector<size_t>> given;
  if (planning_.trainsAsCut(source.model)) {
    given = topLevelOf(TRY(withGivenCuts(source))).boundaries;
  }
  bool known = TRY(planning_.findCosts(source.model, source.context, source.inputs, report_));
  if (!known)
    return warnOfLongStages(source);
  phases_.end(planning_.isMeasured() ? "measure costs" : "estimate costs");
  phases_.begin("planning the cuts");
  bool planned = TRY(planning_.planCuts(source.model, source.context.costs, given, report_));
  if (planned)
    phases_.end("plan the cuts");
  return llvm::Error::success();
}

void CompileRun::markWherePredicatesSay(Model &model) const {
  std::vector<CutPredicate> predicates;
  for (const Cut &cut : options_.cuts)
    if (const auto *predicate = std::get_if<CutPredicate>(&cut))
      predicates.push_back(*predicate);
  if (!predicates.empty())
    markWhere(model, predicates);
}

/// A copy with boundaries at the given cuts, to plan around them. The passes choose them again once
/// the plan is known.
llvm::Expected<Model> CompileRun::withGivenCuts(const Source &source) {
  Model copy = withOwnGraph(source.model);
  PassContext context = source.context;
  markWherePredicatesSay(copy);
  AnyModel any = std::move(copy);
  TRY(frontEnd_.runPasses(cutPipeline(options_), any, context, /*quietly=*/true).takeError());
  return std::get<Model>(std::move(any));
}

/// If cuts were given without costs, warns of long stages by estimates, unless the run for these
/// takes seconds.
llvm::Error CompileRun::warnOfLongStages(Source &source) {
  if (runningFor(source.model) != Running::All)
    return llvm::Error::success();
  Model cut = TRY(withGivenCuts(source));
  if (topLevelOf(cut).boundaries.size() < 2) // one of two stages has at most twice the mean
    return llvm::Error::success();
  const std::vector<NodeCost> costs = TRY(estimateCosts(cut, ownCopies(source.inputs)));
  for (const std::string &warning : longStageWarnings(cut, costs, /*byCost=*/false))
    source.context.warnings.push_back(
        warning + "; the shares are estimates: --cost analytic shows them for every stage");
  return llvm::Error::success();
}

llvm::Expected<StagedModel> CompileRun::cut(Model model, PassContext &context) {
  markWherePredicatesSay(model);
  AnyModel any = std::move(model);
  CompileOptions asked = options_;
  asked.stages = given_ ? given_->places.size() + 1 : planning_.stages();
  if (const std::optional<Tie::Mode> tied = planning_.tied()) {
    llvm::erase_if(asked.tied, [](const auto &entry) { return entry.first.empty(); });
    asked.tied.emplace_back("", *tied);
  }
  size_t stages = requestedStages(asked, std::get<Model>(any));
  TRY(frontEnd_.runPasses(stagePipeline(asked, given_.value_or(planning_.cuts())), any, context)
          .takeError());
  if (asked.nearest && asked.stages == 0 && !context.askedBy.empty())
    stages -= namedCuts(asked) - context.askedBy.size(); // several moved to one place
  StagedModel staged = std::get<StagedModel>(std::move(any));
  if (staged.stages.size() != stages)
    return failf(ExitCode::Internal, "cutting: expected {}, got {}", counted(stages, "stage"),
                 staged.stages.size());
  phases_.end("cut");
  return staged;
}

llvm::Error CompileRun::placeRanks(StagedModel &model) const {
  size_t stages = model.stages.size();
  if (const std::vector<size_t> rankOfStage = ranksOfTable(options_); !rankOfStage.empty()) {
    if (rankOfStage.size() != stages)
      return failf(ExitCode::Usage, "--schedule: expected a table of {}, as the cuts make, got {}",
                   counted(stages, "stage"), rankOfStage.size());
    for (size_t i = 0; i < stages; ++i)
      model.stages[i].plan.rank = rankOfStage[i];
    return llvm::Error::success();
  }
  size_t ranks = planning_.ranksFor(stages);
  if (ranks > stages)
    return failf(ExitCode::Usage, "--ranks: expected at most {}, the number of stages, got {}",
                 stages, ranks);
  for (size_t i = 0; i < stages; ++i)
    model.stages[i].plan.rank = i * ranks / stages;
  return llvm::Error::success();
}

llvm::Error CompileRun::writeStages(Staged &staged, ArtifactWriter &writer) {
  phases_.begin("writing the stages");
  TRY(hook_->beforeFiles(staged.model));
  TRY(placeRanks(staged.model));
  TRY(emitStages(staged.model, staged.source.stable, hook_->pastCacheFrom(), writer));
  TRY(hook_->afterFiles(writer.directory()));
  phases_.end("write stages");
  phases_.begin("digesting the weights");
  finish(staged.source);
  staged.model.sourceDigest = staged.source.digest;
  phases_.end("digest the source");
  return llvm::Error::success();
}

Plan CompileRun::planOf(const StagedModel &model) const {
  Plan plan = model.plan();
  plan.toolVersion = pipecVersion();
  plan.torchVersion = torchVersion();
  plan.microBatches = options_.microBatches   ? options_.microBatches
                      : isCut(plan.signature) ? static_cast<int64_t>(plan.stages.size())
                                              : 1;
  plan.normalisation = normalisationOf(options_, decisions_);
  plan.minor = minorOf(plan);
  if (givenTable(options_))
    plan.scheduleName = "table";
  return plan;
}

/// Finds the loss of a training. A model without a loss can be planned, but not compiled.
llvm::Error CompileRun::findLoss(const Signature &signature, const std::vector<bool> &shown) {
  if (options_.mode != Mode::Train)
    return llvm::Error::success();
  llvm::Expected<LossLeaves> leaf = lossLeaves(signature, options_.lossOutput, shown);
  if (!leaf && options_.planOnly && options_.lossOutput.empty()) {
    report_.notes.push_back("gradients were not compared: " + describe(leaf.takeError()).message);
    return llvm::Error::success();
  }
  if (!leaf)
    return leaf.takeError();
  loss_ = *leaf;
  if (options_.lossOutput.empty())
    describePair(signature, *loss_, shown, report_.notes, report_.warnings);
  if (std::string onSum = warningOnSum(signature, *loss_, shown); !onSum.empty())
    report_.warnings.push_back(std::move(onSum));
  return llvm::Error::success();
}

llvm::Error CompileRun::writePlan(Plan &plan, ArtifactWriter &writer) {
  // A table that differs from run to run belongs to its result.
  if (planning_.isOfThisRun())
    TRY(writer.write("costs.json", report_.costTable));
  if (plan.training)
    TRY(planning_.keepWhole(plan.training->whyWhole));
  // With the sizes that the run showed.
  Schedule schedule =
      TRY(plan.training ? trainingSchedule(options_, planning_.training(), plan)
                        : llvm::Expected<Schedule>(defaultSchedule(options_, plan)));
  plan.minor = minorOf(plan); // with the costs
  plan.requiredFeatures = featuresOf(plan);
  if (llvm::Expected<Program> program = checkSchedule(toCsv(schedule), plan); !program) {
    const ErrorText text = describe(program.takeError());
    // The check reads schedules of artifacts; this one is not in a damaged artifact, but the
    // user's.
    const bool isGiven = options_.schedule && text.code == ExitCode::BadArtifact;
    return makeError(isGiven ? ExitCode::Usage : text.code, "--schedule: " + text.message,
                     text.help);
  }
  TRY(emitPlan(plan, schedule, writer));
  Plan readBack = TRY(readBackPlan(writer.directory(), plan));
  TRY(readBackEvaluation(writer));
  phases_.end("write the plan and read it back");
  report_.plan = std::move(readBack);
  return planning_.forecast(report_, schedule);
}

} // namespace pipec
