// A pipeline as text and as data: `a,b{option=1,other=2},fixpoint(c,d)`; # before a name starts a
// comment that ends with the line.
#pragma once

#include "passes/Pass.h"

#include <string>
#include <vector>

namespace pipec {

/// One pass with its options, or `fixpoint(...)`: its passes in turn, again and again until a whole
/// round changes nothing.
struct PipelineStep {
  std::string name; // "fixpoint" for a group
  PassOptions options;
  std::vector<PipelineStep> body; // of a group

  bool isGroup() const { return name == "fixpoint"; }
};

/// Errors: Usage with the position of what is wrong in the text. Names and options of passes are
/// not checked here.
llvm::Expected<std::vector<PipelineStep>> parsePipeline(llvm::StringRef text);

/// parsePipeline reads it back.
std::string pipelineText(const std::vector<PipelineStep> &steps);
std::string pipelineText(const PipelineStep &step);

} // namespace pipec
