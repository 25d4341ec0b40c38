// A pipeline of passes: a list of typed steps, and its text form
// `a,b{option=1,other=2},fixpoint(c,d)`. A # before a name starts a comment up to the end of the
// line.
#pragma once

#include "passes/PassOptions.h"

#include <string>
#include <vector>

namespace pipec {

struct PassInfo;
struct PipelineStep;
using PassPipeline = std::vector<PipelineStep>;

/// One pass with its options, or `fixpoint(...)`, which repeats its passes until a whole round
/// changes nothing.
struct PipelineStep {
  std::string name;                           // "fixpoint" for a group
  std::shared_ptr<const StepOptions> options; // null: the defaults
  PassPipeline body;                          // of a group

  PipelineStep() = default;
  /// A pass with default options. Implicit, so that a pipeline reads as a list of names.
  PipelineStep(const char *pass) : name(pass) {}
  /// The pass that has these options.
  template <typename Options, typename = decltype(Options::kPass)>
  PipelineStep(Options given)
      : name(Options::kPass.str()),
        options(std::make_shared<TypedOptions<Options>>(std::move(given))) {}

  bool isGroup() const { return name == "fixpoint"; }
};

PipelineStep fixpoint(PassPipeline body);

/// Reads names and options by the registry. Errors: Usage with the position of the problem in the
/// text; Usage for an unknown pass, with the nearest name; Usage naming the pass for bad options.
llvm::Expected<PassPipeline> parsePipeline(llvm::StringRef text, llvm::ArrayRef<PassInfo> registry);

/// The inverse of parsePipeline.
std::string pipelineText(const PassPipeline &steps);
std::string pipelineText(const PipelineStep &step);

} // namespace pipec
