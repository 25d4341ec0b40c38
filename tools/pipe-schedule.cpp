// pipe-schedule: generates or reads compute schedules, checks, simulates and draws them. Starts
// without LibTorch.
#include "ir/schedule/TorchComms.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/ScheduleSvg.h"
#include "tools/report/Table.h"
#include "tools/schedule/ScheduleAuto.h"
#include "tools/schedule/ScheduleCommand.h"
#include "tools/schedule/ScheduleReport.h"
#include "tools/schedule/ScheduleTrace.h"

using namespace pipec;

namespace {

llvm::Error writeFiles(const ScheduleCommand &command, const Trial &trial, bool inBytes) {
  if (command.csv && trial.schedule)
    TRY(writeFileFor(*command.csv, toCsv(*trial.schedule), command.force));
  if (command.program && trial.program)
    TRY(writeFileFor(*command.program, toString(trial.program->program), command.force));
  if (command.comms && trial.program) {
    llvm::Expected<Schedule> table = toTorchComms(trial.program->program, trial.program->plan);
    if (!table)
      return withContext(table.takeError(), "--comms");
    TRY(writeFileFor(*command.comms, toCsv(*table), command.force));
  }
  if (!trial.timing)
    return llvm::Error::success();
  if (command.svg)
    TRY(writeFileFor(*command.svg,
                     drawSvg(*trial.schedule, *trial.timing,
                             {titleOf(trial), subtitleOf(trial), rankNotes(trial, inBytes)}),
                     command.force));
  if (command.trace)
    return writeFileFor(*command.trace,
                        traceOf(*trial.schedule, *trial.timing, trial.costs, trial.name),
                        command.force);
  return llvm::Error::success();
}

ExitCode one(const ScheduleCommand &command, const Trial &trial, bool inBytes) {
  for (const std::string &warning : trial.warnings)
    printWarning(warning);
  if (command.json) {
    llvm::json::Object document = trialJson(trial, inBytes);
    document["schema_version"] = 1;
    document["options"] = llvm::json::Object(command.options);
    toStdout() << printJson(std::move(document));
  } else {
    printTrial(toStdout(), trial, inBytes);
    toStdout() << "\n";
  }
  printVerdict(trial.valid(), trial.why.message, command.json);
  return trial.why.code;
}

ExitCode planned(const ScheduleCommand &command, const PlannedTraining &plan) {
  if (command.json) {
    llvm::json::Object document = plannedJson(plan);
    document["schema_version"] = 1;
    document["options"] = llvm::json::Object(command.options);
    toStdout() << printJson(std::move(document));
  } else {
    printTrial(toStdout(), trialOf(plan), /*inBytes=*/true);
    toStdout() << "\n";
    printTraining(toStdout(), plan);
    toStdout() << "\n";
  }
  printVerdict(true, "", command.json);
  return ExitCode::Success;
}

ExitCode best(const ScheduleCommand &command, const AutoTrial &found, bool inBytes) {
  if (command.json) {
    llvm::json::Object document = autoJson(found, inBytes);
    document["schema_version"] = 1;
    document["options"] = llvm::json::Object(command.options);
    toStdout() << printJson(std::move(document));
  } else {
    printCandidates(toStdout(), found, inBytes);
    toStdout() << "\n";
    printTrial(toStdout(), found.trial, inBytes);
    toStdout() << "\n";
  }
  printVerdict(found.trial.valid(), found.trial.why.message, command.json);
  return found.trial.why.code;
}

/// For `auto`, "nothing fits" is a result like any other, as it is for a named schedule.
llvm::Expected<ExitCode> noneFits(const ScheduleCommand &command, llvm::Error error) {
  if (!command.json)
    return std::move(error);
  const ErrorText why = describe(std::move(error));
  if (why.code != ExitCode::NoPlan)
    return makeError(why.code, why.message, why.help);
  toStdout() << printJson(llvm::json::Object{{"schema_version", 1},
                                             {"options", llvm::json::Object(command.options)},
                                             {"schedule", nullptr},
                                             {"makespan_ms", nullptr},
                                             {"valid", false},
                                             {"why", why.message}});
  printVerdict(false, why.message, command.json);
  return why.code;
}

/// In a comparison, schedules that do not fit the numbers or the memory limit are results. A table
/// that is no schedule is an error.
ExitCode several(const ScheduleCommand &command, const std::vector<Trial> &trials, bool inBytes) {
  const std::map<TrialKind, StepBound> bounds = boundsOf(trials, command.request);
  ExitCode worst = ExitCode::NoPlan;
  std::string why;
  llvm::json::Array rows;
  for (const Trial &trial : trials) {
    for (const std::string &warning : trial.warnings)
      printWarning(trial.name + ": " + warning);
    llvm::json::Object row = trialJson(trial, inBytes);
    row["name"] = trial.name;
    if (trial.timing)
      row["search_lower_bound_ms"] = inMilliseconds(bounds.at(kindOf(trial)).time);
    rows.push_back(std::move(row));
    if (trial.valid() && worst == ExitCode::NoPlan)
      worst = ExitCode::Success;
    const bool bad =
        !trial.valid() && trial.why.code != ExitCode::NoPlan && trial.why.code != ExitCode::Usage;
    if (bad && why.empty()) {
      worst = trial.why.code;
      why = trial.name + ": " + trial.why.message;
    }
  }
  if (command.json)
    toStdout() << printJson(llvm::json::Object{{"schema_version", 1},
                                               {"options", llvm::json::Object(command.options)},
                                               {"schedules", std::move(rows)}});
  else
    printComparison(toStdout(), trials, command.request);
  if (worst == ExitCode::NoPlan)
    why = "none of the schedules fits";
  printVerdict(worst == ExitCode::Success, why, command.json);
  return worst;
}

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
      return noneFits(command, wishes.takeError());
    llvm::Expected<PlannedTraining> training = planTraining(*request.costs.operators, *wishes);
    if (!training)
      return noneFits(command, training.takeError());
    TRY(writeFiles(command, trialOf(*training), /*inBytes=*/true));
    return planned(command, *training);
  }
  if (llvm::is_contained(names, "auto")) {
    if (names.size() > 1)
      return failf(ExitCode::Usage, "auto: expected it alone, got {} schedules", names.size());
    llvm::Expected<AutoTrial> found = searchSchedules(request);
    if (!found)
      return noneFits(command, found.takeError());
    TRY(writeFiles(command, found->trial, request.costs.inBytes));
    return best(command, *found, request.costs.inBytes);
  }
  std::vector<Trial> trials;
  for (const std::string &name : names) {
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
  const bool inBytes = request.costs.inBytes;
  if (trials.size() > 1)
    return several(command, trials, inBytes);
  TRY(writeFiles(command, trials[0], inBytes));
  return one(command, trials[0], inBytes);
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
  info.usage = "NAME|FILE[,...] [options]";
  info.examples = {
      "pipe-schedule 1f1b --ranks 4 --microbatches 8",
      "pipe-schedule all --ranks 8 --microbatches 32 --costs f=14.5,i=15.6,w=9.3,comm=0.3",
      "pipe-schedule zb-v --ranks 8 --microbatches 16 --svg zb-v.svg",
      "pipe-schedule table.csv --json",
  };
  info.words["NAME"] = generatorNames();
  return plainToolMain(argc, argv, info, run);
}
