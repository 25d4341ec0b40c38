// Stages in eval mode beside those of a training: a second compile of the same file into the same
// artifact.
#include "compiler/CompileRun.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/PlanToJson.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

namespace pipec {

namespace {

CompileOptions evaluationOptions(const CompileOptions &training, const Plan &plan) {
  CompileOptions options;
  options.evaluation = true;
  options.split = CutSource::Auto; // where the training's cuts are
  options.inputs = training.inputs;
  options.moreInputs = training.moreInputs;
  options.method = training.method;
  options.batchDims = training.batchDims;
  options.merges = training.merges;
  options.tied = training.tied;
  options.loss = training.loss;
  options.trainingFlag = TrainingFlag::False;
  options.keepEval = training.keepEval;
  options.verify = training.verify;
  options.microBatches = plan.microBatches;
  options.progress = training.progress;
  return options;
}

/// A stage runs on the rank of the training's stage that it begins with, if all ranks have one.
void placeLike(const Plan &training, const std::vector<size_t> &stageOf, Plan &plan) {
  if (stageOf.size() != training.stages.size())
    return;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    plan.stages[s].rank = training.stages[stageOf[s]].rank;
  plan.ranks = training.ranks;
}

} // namespace

/// Its proofs and tests are added to this report; its repeated notes are not.
llvm::Error CompileRun::addEvaluation(const StagedModel &model, const Plan &plan,
                                      ArtifactWriter &writer) {
  if (!options_.evaluation)
    return llvm::Error::success();
  phases_.begin("compiling the stages that evaluate");
  const CompileOptions options = evaluationOptions(options_, plan);
  const InternalOptions internal;
  CompileRun run(path_, options, internal);
  llvm::Expected<Plan> evaluation = run.compileBeside(model, plan, writer);
  if (!evaluation)
    return withContext(evaluation.takeError(), "--evaluation");
  auto add = [](std::vector<std::string> &all, const std::vector<std::string> &more) {
    for (const std::string &sentence : more)
      if (!llvm::is_contained(all, sentence))
        all.push_back("evaluation: " + sentence);
  };
  add(report_.notes, run.report_.notes);
  add(report_.warnings, run.report_.warnings);
  for (const std::string &sentence : run.report_.proved)
    report_.proved.push_back("evaluation: " + sentence);
  for (const std::string &sentence : run.report_.tested)
    report_.tested.push_back("evaluation: " + sentence);
  phases_.add(run.report_.passes);
  evaluation_ = std::move(*evaluation);
  if (evaluation_->stages.size() != plan.stages.size())
    report_.notes.push_back(
        fmt::format("evaluation: {} in place of {}, because eval mode has fewer places for cuts",
                    counted(evaluation_->stages.size(), "stage"), plan.stages.size()));
  phases_.end("compile the evaluation");
  return llvm::Error::success();
}

llvm::Expected<Plan> CompileRun::compileBeside(const StagedModel &training, const Plan &trained,
                                               ArtifactWriter &writer) {
  TRY(planning_.begin(options_));
  Source source = TRY(frontEnd_.study());
  EvaluationCuts like = cutsLike(training, source.model);
  given_ = std::move(like.cuts);
  Staged staged = TRY(cutSource(std::move(source)));
  for (size_t s = 0; s < staged.model.stages.size(); ++s)
    staged.model.stages[s].plan.file = kEvaluationPrefix + std::to_string(s) + ".pt";
  TRY(writeStages(staged, writer));
  Plan plan = planOf(staged.model);
  TRY(prove(staged, plan, writer));
  placeLike(trained, like.stageOf, plan);
  plan.requiredFeatures = featuresOf(plan);
  TRY(writer.write(std::string(kEvaluationPrefix) + "plan.json", toJson(plan)));
  return plan;
}

/// Once MANIFEST is written.
llvm::Error CompileRun::readBackEvaluation(const ArtifactWriter &writer) const {
  if (!evaluation_)
    return llvm::Error::success();
  Artifact artifact = TRY(openArtifactPlan(writer.directory()));
  std::optional<Artifact> read = TRY(evaluationOf(artifact));
  if (!read || !(read->plan == *evaluation_))
    return makeError(ExitCode::Internal,
                     "the plan of the evaluation as read back is not the plan that was written");
  if (llvm::Expected<Program> program = checkSchedule(read->scheduleCsv, read->plan); !program)
    return makeError(ExitCode::Internal,
                     "the schedule of the evaluation: " + describe(program.takeError()).message);
  return llvm::Error::success();
}

} // namespace pipec
