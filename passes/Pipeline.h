// A pipeline as text and as data: `a,b{option=1,other=2},fixpoint(c,d)`. A # before a name starts a
// comment up to the end of the line.
#pragma once

#include "passes/Pass.h"

#include <string>
#include <vector>

namespace pipec {

/// One pass with its options, or `fixpoint(...)`, which repeats its passes until a whole round
/// changes nothing.
struct PipelineStep {
  std::string name; // "fixpoint" for a group
  PassOptions options;
  std::vector<PipelineStep> body; // of a group

  bool isGroup() const { return name == "fixpoint"; }
};

/// Errors: Usage with the position of the problem in the text. Names and options of passes are not
/// checked here.
llvm::Expected<std::vector<PipelineStep>> parsePipeline(llvm::StringRef text);

/// The inverse of parsePipeline.
std::string pipelineText(const std::vector<PipelineStep> &steps);
std::string pipelineText(const PipelineStep &step);

} // namespace pipec
