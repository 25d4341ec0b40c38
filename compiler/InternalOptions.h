// Options that only pipec's own commands and tests set, besides CompileOptions. No public header.
#pragma once

#include "compiler/CompileHook.h"
#include "compiler/Compiler.h"

namespace pipec {

struct InternalOptions {
  std::vector<std::string> command;                       // recorded in a reproducer
  std::function<std::unique_ptr<CompileHook>()> makeHook; // called once per compile; empty: no hook
  // For Compiler::compareWith, because the plan does not have them.
  std::string loss;               // the file that --loss joined to the model; empty: none
  std::string method = "forward"; // the model's own method below that loss
};

/// Like Compiler::load. The internal options apply to every compile and trace of this compiler.
llvm::Expected<Compiler> loadWith(const std::string &modelPath, InternalOptions internal);

} // namespace pipec
