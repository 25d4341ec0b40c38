#include "compiler/ArtifactEmitter.h"

#include "compiler/StageEmitter.h"
#include "ir/GraphText.h"
#include "ir/schedule/Program.h"

namespace pipec {

llvm::Error emitStages(const StagedModel &model, ArtifactWriter &writer) {
  for (size_t i = 0; i < model.stages.size(); ++i) {
    if (llvm::Error error =
            emitStage(model, i, writer.directory() + "/" + model.stages[i].plan.file))
      return error;
    std::string text;
    llvm::raw_string_ostream os(text);
    printGraph(*model.stages[i].graph, os);
    if (llvm::Error error = writer.write("stage-" + std::to_string(i) + ".ir", os.str()))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error emitPlan(const Plan &plan, ArtifactWriter &writer) {
  if (llvm::Error error = verify(plan))
    return makeError(ExitCode::Internal,
                     "the plan does not verify: " + describe(std::move(error)).message);
  ScheduleShape shape;
  shape.stages = plan.stages.size();
  shape.microBatches = plan.microBatches;
  shape.ranks = plan.ranks;
  for (const StagePlan &stage : plan.stages)
    shape.rankOfStage.push_back(stage.rank);
  Schedule schedule = forwardOnly(shape);
  llvm::Expected<Program> program = lower(schedule, plan, plan.microBatches);
  if (!program)
    return makeError(ExitCode::Internal,
                     "the schedule does not lower: " + describe(program.takeError()).message);
  if (llvm::Error error = check(*program, plan, plan.microBatches))
    return makeError(ExitCode::Internal,
                     "the schedule does not check: " + describe(std::move(error)).message);
  if (llvm::Error error = writer.write("schedule.csv", toCsv(schedule)))
    return error;
  return writer.write("plan.json", toJson(plan));
}

} // namespace pipec
