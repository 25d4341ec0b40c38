// The command line of pipe-schedule: reads its options into the trials to make and the files to
// write.
#pragma once

#include "llvm/Support/JSON.h"
#include "tools/cli/ToolMain.h"
#include "tools/schedule/ScheduleTraining.h"
#include "tools/schedule/ScheduleTrial.h"

namespace pipec {

struct ScheduleCommand {
  bool list = false, json = false, force = false;
  std::vector<std::string> names; // of schedules and tables, or auto
  TrialRequest request;
  // Output files; null: not requested.
  const StringOption *csv = nullptr, *svg = nullptr, *trace = nullptr, *program = nullptr,
                     *comms = nullptr;
  llvm::json::Object options; // as they were given
};

/// With `list` nothing else is read. Errors: Usage for options that contradict each other, and
/// those of the costs and the cluster.
llvm::Expected<ScheduleCommand> readScheduleCommand();

/// For a table of a model's operators: the settings that a named schedule leaves free, or all.
/// Errors: Usage.
llvm::Expected<TrainingWishes> readWishes(const TrialRequest &request,
                                          const std::vector<std::string> &names);

} // namespace pipec
