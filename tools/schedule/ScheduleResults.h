// The results of pipe-schedule: the files that were asked for, then a table or a JSON document and
// the verdict. Each function returns the exit code of the command.
#pragma once

#include "tools/schedule/ScheduleAuto.h"
#include "tools/schedule/ScheduleCommand.h"

namespace pipec {

/// Errors: IO; those of toTorchComms.
llvm::Error writeScheduleFiles(const ScheduleCommand &command, const Trial &trial, bool inBytes);

ExitCode showTrial(const ScheduleCommand &command, const Trial &trial, bool inBytes);
ExitCode showTraining(const ScheduleCommand &command, const PlannedTraining &plan);
ExitCode showBest(const ScheduleCommand &command, const AutoTrial &found, bool inBytes);

/// With --json, "nothing fits" is a result, as it is for a named schedule. Returns other errors
/// unchanged.
llvm::Expected<ExitCode> showNoneFits(const ScheduleCommand &command, llvm::Error error);

/// Schedules that do not fit the numbers or the memory limit are rows of the comparison. A table
/// that is no schedule makes it fail.
ExitCode showComparison(const ScheduleCommand &command, const std::vector<Trial> &trials,
                        bool inBytes);

} // namespace pipec
