// The options of pipe-compile that a training has, and the schedule, which means another thing in
// a training.
#pragma once

#include "compiler/CompileOptions.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Of all options of pipe-compile.
extern llvm::cl::OptionCategory compileCategory;

/// Other options that it depends on.
struct CompileContext {
  bool infer = false;  // --infer
  bool dryRun = false; // --dry-run
  bool recordsCase = false;
};

/// --train or --loss asks for one.
bool isTraining(const CompileContext &context);
/// --train was given.
bool hasTrainFlag();
/// --schedule auto was given.
bool hasAutoSchedule();

/// Sets the mode, the loss and the schedule. Errors: Usage for options that do not fit together;
/// IO and Unreadable for the table of a schedule.
llvm::Error readTraining(const CompileContext &context, CompileOptions &options);

/// Adds the effective options to a report.
void noteTraining(const CompileContext &context, llvm::json::Object &object);

} // namespace pipec
