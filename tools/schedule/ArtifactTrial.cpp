#include "tools/schedule/ArtifactTrial.h"

#include "ir/plan/PlanFromJson.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "tools/report/PlanTiming.h"

namespace pipec {

namespace {

llvm::Expected<std::string> readPart(const std::string &path, const char *what) {
  TextFormat format;
  format.what = what;
  format.code = ExitCode::BadArtifact;
  return readTextFile(path, format);
}

/// As timePlan() lowers it.
llvm::Expected<ScheduleProgram> programOf(const Plan &plan, const Schedule &schedule) {
  ScheduleProgram result;
  result.plan = plan;
  result.shape.microBatches = plan.microBatches;
  if (plan.training)
    result.shape = trainingShape(plan, schedule, plan.microBatches, /*optimizer=*/true);
  result.program = TRY(lower(schedule, plan, result.shape));
  TRY(check(result.program, plan, result.shape));
  return result;
}

llvm::Error judge(Trial &trial, const Plan &plan, const std::string &csv) {
  trial.schedule = TRY(scheduleFromCsv(csv));
  trial.shape = TRY(checkTable(*trial.schedule, &trial.warnings));
  trial.program = TRY(programOf(plan, *trial.schedule));
  PlanTiming timed = TRY(timePlan(plan, *trial.schedule, plan.microBatches));
  if (!timed.known)
    trial.warnings.push_back("the plan has no costs: each part of a stage's work takes 1 ms");
  trial.costs.stages = std::move(timed.costs);
  trial.timing = std::move(timed.timing);
  trial.lowerBound = timed.lowerBound;
  return llvm::Error::success();
}

} // namespace

bool isArtifact(const std::string &path) {
  return llvm::sys::fs::is_directory(path) && llvm::sys::fs::exists(path + "/plan.json");
}

llvm::Expected<Trial> tryArtifact(const std::string &directory) {
  Trial trial;
  trial.name = directory;
  const std::string text = TRY(readPart(directory + "/plan.json", "a plan"));
  llvm::Expected<Plan> plan = planFromJson(text, trial.warnings);
  if (!plan)
    return withContext(plan.takeError(), directory);
  const std::string csv = TRY(readPart(directory + "/schedule.csv", "a table"));
  if (llvm::Error error = judge(trial, *plan, csv)) {
    trial.why = describe(std::move(error));
    trial.why.code = ExitCode::BadArtifact; // the schedule is no choice of the user here
  }
  return trial;
}

} // namespace pipec
