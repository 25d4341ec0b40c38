// The command line of pipe-compile: reads its options into the compiler's options and the settings
// of the command itself.
#pragma once

#include "compiler/InternalOptions.h"
#include "llvm/Support/JSON.h"

#include <optional>

namespace pipec {

struct CompileCommand {
  CompileOptions options;
  InternalOptions internal;
  std::string model, target; // the artifact's directory
  std::vector<std::string> libraries;
  std::optional<std::string> emitCosts, recordCase;
  bool printPipeline = false, dryRun = false, force = false, json = false;
  bool dumps = false; // --dump-ir was given
  bool timing = false;
};

/// `words`: the command line as it was typed, for a reproducer. Errors: Usage for options that
/// contradict each other; IO and Unreadable for the table of a schedule.
llvm::Expected<CompileCommand> readCompileCommand(const std::vector<std::string> &words);

/// The effective options, with defaults. An option without a default is left out unless it was
/// given.
llvm::json::Object optionsJson(const std::string &target, const CompileReport &report);

} // namespace pipec
