#include "compiler/CompileRun.h"

#include "compiler/GivenSchedule.h"
#include "compiler/Pipelines.h"
#include "compiler/StageRuns.h"
#include "compiler/TrainedParameters.h"
#include "compiler/TrainingSchedule.h"
#include "compiler/UncertainGradients.h"
#include "compiler/cost/EstimateCosts.h"
#include "compiler/cost/GraphEvaluator.h"
#include "compiler/verify/CompareGradients.h"
#include "ir/MarkerOps.h"
#include "ir/OwnGraph.h"
#include "ir/Refusals.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
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

/// "5 runs with batches of 2, 3 and 5"
std::string countedRuns(const std::vector<ExampleRun> &runs) {
  std::set<int64_t> sizes;
  size_t count = 0;
  for (const ExampleRun &run : runs) {
    count += run.calls.size();
    sizes.insert(run.batch.begin(), run.batch.end());
  }
  sizes.erase(0); // nothing is cut
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty()              ? " with batches of "
             : size == *sizes.rbegin() ? " and "
                                       : ", ") +
            std::to_string(size);
  const bool others = llvm::any_of(runs, [](const ExampleRun &run) { return run.otherSizes; });
  return counted(count, "run") + text + (others ? ", and at other sizes" : "");
}

/// "1e-6", "1e-6 (float32) and 0.0625 (bfloat16)"
std::string toleranceText(const std::map<std::string, double> &byDtype) {
  std::vector<std::string> texts;
  for (const auto &[dtype, tolerance] : byDtype) {
    const std::string number = tolerance == 1e-6 ? "1e-6" : fmt::format("{}", tolerance);
    texts.push_back(byDtype.size() > 1 ? fmt::format("{} ({})", number, dtype) : number);
  }
  return llvm::join(texts, " and ");
}

void markWhere(Model &model, const std::vector<CutPredicate> &predicates) {
  markBoundaries(model, [&](const std::string &op, const std::string &modulePath, size_t index) {
    return llvm::any_of(predicates, [&](const CutPredicate &predicate) {
      return predicate({op, modulePath, index});
    });
  });
}

/// Gradients that differ are no error of pipec if an operator of a part without gradients returned
/// its argument.
llvm::Error explainedByArgument(llvm::Error error, llvm::ArrayRef<std::string> mayReturn) {
  const ErrorText text = describe(std::move(error));
  if (text.code != ExitCode::Internal || mayReturn.empty())
    return makeError(text.code, text.message, text.help);
  return refuseWith(Refusal::ReturnedArgument, llvm::join(mayReturn, ", or "), text.message);
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
  // Markers inside control flow count before it. Before the first operator is no place, so a marker
  // inside that counts after it, unless nothing is before the marker.
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
  mayReturnArgument_ = source.context.mayReturnArgument;
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

/// Cuts that were given without costs are judged by estimates, unless a run takes seconds.
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

llvm::Error CompileRun::prove(Staged &staged, Plan &plan, const ArtifactWriter &writer) {
  const ReadBack large = options_.verify == Verify::Run ? ReadBack::All : ReadBack::Ends;
  std::map<std::string, at::Tensor> fromMemory; // weights that have been compared
  if (options_.verify != Verify::None) {
    phases_.begin("reading the stages back");
    fromMemory = weightsNotReadBack(staged.source, large);
    TRY(validate(writer.directory(), plan, staged.source, large));
    report_.proved.push_back(whatWasProved(staged.source, large));
    phases_.end("validate");
  }
  const std::vector<ExampleRun> runs = runsToRepeat(std::move(staged.runs), plan);
  if (runs.empty()) {
    if (loss_)
      report_.notes.push_back("gradients were not compared: there are no example inputs; pass "
                              "--inputs");
    return llvm::Error::success();
  }
  TRY(runStages(writer.directory(), plan, runs, fromMemory, phases_.progress()));
  report_.tested.push_back(
      "the stages give the same bits as the source on the example inputs, in " + countedRuns(runs));
  phases_.end("run the stages on the example");
  if (loss_)
    noteUncertainGradients(staged.model, plan);
  TRY(proveGradients(runs, staged.model, plan, writer));
  phases_.begin("writing the plan");
  return llvm::Error::success();
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

llvm::Error CompileRun::proveGradients(const std::vector<ExampleRun> &runs,
                                       const StagedModel &stages, Plan &plan,
                                       const ArtifactWriter &writer) {
  if (!loss_)
    return llvm::Error::success();
  phases_.begin("comparing gradients");
  GradientComparison comparison(frontEnd_.source(), writer.directory(), stages, plan, *loss_);
  const std::vector<ExampleRun> trained = runsToTrain(runs);
  if (llvm::Error error = comparison.compareWhole(trained))
    return explainedByArgument(std::move(error), mayReturnArgument_);
  TRY(hook_->afterFlags(plan));
  TRY(comparison.compareSplit());
  const bool isWarnedOf = loss_->loss < report_.results.size() &&
                          report_.results[loss_->loss].equal == ResultCheck::Equal::No;
  if (!isWarnedOf)
    comparison.compareParts(runs, norms_);
  const ComparedGradients compared = comparison.take();
  const size_t whole =
      llvm::count_if(compared.whyWhole, [](const std::string &why) { return !why.empty(); });
  report_.tested.push_back(
      fmt::format("the loss and {} have the same bits as the source's, in {}, with {}",
                  counted(compared.gradients, "gradient"), countedRuns(trained),
                  compared.splitRuns == trained.size() ? "whole and split backwards"
                                                       : "split backwards in the first"));
  if (compared.tied > 0)
    report_.tested.back() +=
        fmt::format("; {} summed over several stages: equal within {}",
                    counted(compared.tied, "gradient"), toleranceText(compared.tolerances));
  for (size_t s = 0; s < compared.whyWhole.size() && whole > 0; ++s)
    if (!compared.whyWhole[s].empty())
      report_.notes.push_back(
          fmt::format("stage {} cannot split its backward: {}", s, compared.whyWhole[s]));
  plan.training->whyWhole = compared.whyWhole;
  if (compared.gradients == 0)
    return makeError(ExitCode::Usage,
                     "--train: expected a loss that has gradients, got one that no parameter of "
                     "the model leads to",
                     "turn requires_grad of the parameters on before saving the model, and compute "
                     "the loss with gradients");
  report_.warnings.insert(report_.warnings.end(), compared.warnings.begin(),
                          compared.warnings.end());
  phases_.end("compare gradients");
  return llvm::Error::success();
}

llvm::Error CompileRun::writePlan(Plan &plan, ArtifactWriter &writer) {
  // A table that differs from run to run belongs to its result.
  if (planning_.isOfThisRun())
    TRY(writer.write("costs.json", report_.costTable));
  // With the sizes that the run showed.
  Schedule schedule =
      TRY(plan.training ? trainingSchedule(options_, planning_.training(), plan)
                        : llvm::Expected<Schedule>(defaultSchedule(options_, plan)));
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
