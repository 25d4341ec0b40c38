// pipe-schedule: generates or reads compute schedules, checks, simulates and draws them. Starts
// without LibTorch.
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/ProgressLine.h"
#include "tools/cli/ToolMain.h"
#include "tools/schedule/ArtifactTrial.h"
#include "tools/schedule/ScheduleAuto.h"
#include "tools/schedule/ScheduleCommand.h"
#include "tools/schedule/ScheduleReport.h"
#include "tools/schedule/ScheduleResults.h"

using namespace pipec;

namespace {

llvm::Expected<ExitCode> listSchedules(bool json) {
  if (json)
    toStdout() << printJson(
        llvm::json::Object{{"schema_version", 1}, {"schedules", generatorsJson()}});
  else
    printGenerators(toStdout());
  return ExitCode::Success;
}

llvm::Expected<ExitCode> run() {
  ScheduleCommand command = TRY(readScheduleCommand());
  if (command.list)
    return listSchedules(command.json);
  const TrialRequest &request = command.request;
  const std::vector<std::string> &names = command.names;
  if (request.costs.operators) {
    llvm::Expected<TrainingWishes> wishes = readWishes(request, names);
    if (!wishes)
      return showNoneFits(command, wishes.takeError());
    llvm::Expected<PlannedTraining> training = planTraining(*request.costs.operators, *wishes);
    if (!training)
      return showNoneFits(command, training.takeError());
    TRY(writeScheduleFiles(command, trialOf(*training), /*inBytes=*/true));
    return showTraining(command, *training);
  }
  if (llvm::is_contained(names, "auto")) {
    if (names.size() > 1)
      return failf(ExitCode::Usage, "auto: expected it alone, got {} schedules", names.size());
    llvm::Expected<AutoTrial> found = searchSchedules(request);
    if (!found)
      return showNoneFits(command, found.takeError());
    TRY(writeScheduleFiles(command, found->trial, request.costs.inBytes));
    return showBest(command, *found, request.costs.inBytes);
  }
  if (isArtifact(names.front())) {
    const Trial trial = TRY(tryArtifact(names.front()));
    TRY(writeScheduleFiles(command, trial, /*inBytes=*/true));
    return showTrial(command, trial, /*inBytes=*/true);
  }
  std::vector<Trial> trials;
  std::optional<ProgressLine> progress;
  ProgressCallback report;
  if (names.size() > 1 && !command.json) {
    progress.emplace();
    report = progress->callback();
  }
  for (const std::string &name : names) {
    if (report)
      report({"trying", "schedules", trials.size(), names.size()});
    llvm::Expected<Trial> trial = trySchedule(name, request);
    if (trial) {
      trials.push_back(std::move(*trial));
      continue;
    }
    // In a comparison, a schedule that does not exist for these numbers has a row that says so.
    if (names.size() == 1 || !findGenerator(name))
      return trial.takeError();
    Trial &without = trials.emplace_back();
    without.name = name;
    without.why = describe(trial.takeError());
  }
  progress.reset();
  const bool inBytes = request.costs.inBytes;
  if (trials.size() > 1)
    return showComparison(command, trials, inBytes);
  TRY(writeScheduleFiles(command, trials[0], inBytes));
  return showTrial(command, trials[0], inBytes);
}

std::vector<std::string> generatorNames() {
  std::vector<std::string> names{"all", "auto"};
  for (const Generator &generator : generators())
    names.push_back(generator.name.str());
  return names;
}

} // namespace

int main(int argc, char **argv) {
  ToolInfo info;
  info.name = "pipe-schedule";
  info.description = "makes or reads compute schedules, checks, simulates, compares and draws them";
  info.usage = "NAME|FILE|MODEL.pipe[,...] [options]";
  info.examples = {
      "pipe-schedule 1f1b --ranks 4 --microbatches 8",
      "pipe-schedule all --ranks 8 --microbatches 32 --costs f=14.5,i=15.6,w=9.3,comm=0.3",
      "pipe-schedule zb-v --ranks 8 --microbatches 16 --svg zb-v.svg",
      "pipe-schedule table.csv --json",
      "pipe-schedule model.pipe --svg step.svg",
  };
  info.words["NAME"] = generatorNames();
  return plainToolMain(argc, argv, info, run);
}
