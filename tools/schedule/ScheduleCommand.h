// The command line of pipe-schedule: its options, read into what is tried and what is written.
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
  // What is written where; null: not asked for.
  const StringOption *csv = nullptr, *svg = nullptr, *trace = nullptr, *program = nullptr,
                     *comms = nullptr;
  llvm::json::Object options; // as they were given
};

/// With `list` nothing else is read. Errors: Usage for options that do not go together, and those
/// of the costs and the cluster.
llvm::Expected<ScheduleCommand> readScheduleCommand();

/// From the operators of a model: what a named schedule leaves free, or all of it. Errors: Usage.
llvm::Expected<TrainingWishes> readWishes(const TrialRequest &request,
                                          const std::vector<std::string> &names);

} // namespace pipec
