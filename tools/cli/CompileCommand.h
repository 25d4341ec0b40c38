// The command line of pipe-compile: its options, read into what the compiler takes and what the
// command does besides.
#pragma once

#include "compiler/Compiler.h"
#include "llvm/Support/JSON.h"

#include <optional>

namespace pipec {

struct CompileCommand {
  CompileOptions options;
  std::string model, target; // the artifact's directory
  std::vector<std::string> libraries;
  std::optional<std::string> emitCosts, recordCase;
  bool printPipeline = false, dryRun = false, force = false, json = false;
  bool dumps = false; // --dump-ir was given
};

/// `words`: the command line as it was typed, for a reproducer. Errors: Usage for options that do
/// not go together; IO and Unreadable for the table of a schedule.
llvm::Expected<CompileCommand> readCompileCommand(const std::vector<std::string> &words);

/// As given, with defaults filled in; an option without a default is left out where it was not
/// given.
llvm::json::Object optionsJson(const std::string &target, const CompileReport &report);

} // namespace pipec
