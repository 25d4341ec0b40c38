// The pipelines of a compile: which passes run in which step, with which options.
#pragma once

#include "compiler/CompileOptions.h"
#include "passes/PassPipeline.h"

namespace pipec {

/// Checks that the text of a pipeline can hold the given names of modules and weights, so that
/// --print-pipeline and reproducers can be read back. Errors: Usage for a name that it cannot hold.
llvm::Error checkNames(const CompileOptions &options);

/// From the imported method to the normalised flat model.
PassPipeline frontPipeline(const CompileOptions &options);
/// The passes that run again whenever an example has shown more types, at most kTypedRounds times.
PassPipeline typedPipeline();
constexpr int kTypedRounds = 4;
/// The cuts that a planner chose.
struct PlannedCuts {
  std::vector<size_t> places; // indices of the operators that follow a cut
  std::vector<size_t> order;  // of operators; empty: program order
};
/// From the normalised model to a model with cuts.
PassPipeline cutPipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// From the normalised model to stages.
PassPipeline stagePipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// The text of the whole pipeline, as Compiler::pipelineText, with the planned cuts if they are
/// known.
std::string wholePipelineText(const CompileOptions &options, const PlannedCuts &cuts);

} // namespace pipec
