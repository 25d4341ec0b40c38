#include "tools/schedule/ScheduleResults.h"

#include "ir/schedule/TorchComms.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/ScheduleSvg.h"
#include "tools/report/Table.h"
#include "tools/schedule/ScheduleBound.h"
#include "tools/schedule/ScheduleReport.h"
#include "tools/schedule/ScheduleTrace.h"

namespace pipec {

static void printDocument(const ScheduleCommand &command, llvm::json::Object document) {
  document["schema_version"] = 1;
  document["options"] = llvm::json::Object(command.options);
  toStdout() << printJson(std::move(document));
}

llvm::Error writeScheduleFiles(const ScheduleCommand &command, const Trial &trial, bool inBytes) {
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

ExitCode showTrial(const ScheduleCommand &command, const Trial &trial, bool inBytes) {
  for (const std::string &warning : trial.warnings)
    printWarning(warning);
  if (command.json) {
    printDocument(command, trialJson(trial, inBytes));
  } else {
    printTrial(toStdout(), trial, inBytes);
    toStdout() << "\n";
  }
  printVerdict(trial.valid(), trial.why.message, command.json);
  return trial.why.code;
}

ExitCode showTraining(const ScheduleCommand &command, const PlannedTraining &plan) {
  if (command.json) {
    printDocument(command, plannedJson(plan));
  } else {
    printTrial(toStdout(), trialOf(plan), /*inBytes=*/true);
    toStdout() << "\n";
    printTraining(toStdout(), plan);
    toStdout() << "\n";
  }
  printVerdict(true, "", command.json);
  return ExitCode::Success;
}

ExitCode showBest(const ScheduleCommand &command, const AutoTrial &found, bool inBytes) {
  if (command.json) {
    printDocument(command, autoJson(found, inBytes));
  } else {
    printCandidates(toStdout(), found, inBytes);
    toStdout() << "\n";
    printTrial(toStdout(), found.trial, inBytes);
    toStdout() << "\n";
  }
  printVerdict(found.trial.valid(), found.trial.why.message, command.json);
  return found.trial.why.code;
}

llvm::Expected<ExitCode> showNoneFits(const ScheduleCommand &command, llvm::Error error) {
  if (!command.json)
    return std::move(error);
  const ErrorText why = describe(std::move(error));
  if (why.code != ExitCode::NoPlan)
    return makeError(why.code, why.message, why.help);
  printDocument(command, llvm::json::Object{{"schedule", nullptr},
                                            {"makespan_ms", nullptr},
                                            {"valid", false},
                                            {"why", why.message}});
  printVerdict(false, why.message, command.json);
  return why.code;
}

ExitCode showComparison(const ScheduleCommand &command, const std::vector<Trial> &trials,
                        bool inBytes) {
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
    printDocument(command, llvm::json::Object{{"schedules", std::move(rows)}});
  else
    printComparison(toStdout(), trials, command.request);
  if (worst == ExitCode::NoPlan)
    why = "none of the schedules fits";
  printVerdict(worst == ExitCode::Success, why, command.json);
  return worst;
}

} // namespace pipec
