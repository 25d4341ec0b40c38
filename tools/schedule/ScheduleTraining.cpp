#include "tools/schedule/ScheduleTraining.h"

#include "tools/schedule/ScheduleReport.h"

namespace pipec {

Trial trialOf(const PlannedTraining &plan) {
  Trial trial;
  trial.name = plan.scheduleName;
  trial.generated = true;
  trial.schedule = plan.schedule;
  TableShape &shape = trial.shape.emplace();
  shape.stages = plan.stages.size();
  shape.microBatches = plan.microBatches;
  shape.backward = true;
  for (const PlannedStage &stage : plan.stages) {
    shape.rankOfStage.push_back(stage.rank);
    trial.costs.stages.push_back(stage.costs);
  }
  trial.timing = plan.timing;
  trial.program = ScheduleProgram{plan.plan, plan.shape, plan.program};
  trial.lowerBound = plan.lowerBoundNs;
  trial.wholeMemory = true;
  return trial;
}

llvm::json::Object plannedJson(const PlannedTraining &plan) {
  llvm::json::Object document = trialJson(trialOf(plan), /*inBytes=*/true);
  for (auto &entry : trainingJson(plan))
    document[entry.first] = std::move(entry.second);
  return document;
}

} // namespace pipec
