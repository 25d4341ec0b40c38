// The one list of passes, as text in pipe-opt's form.
#pragma once

#include "compiler/Compiler.h"

namespace pipec {

/// Checks that the text can hold the given names of modules and weights. Errors: Usage for a name
/// that it cannot hold.
llvm::Error checkNames(const CompileOptions &options);

/// The word that choose-cuts takes for it.
llvm::StringRef toString(CutSource source);

/// From the imported method to the normalised flat model.
std::string frontPipeline(const CompileOptions &options);
/// The passes that run again whenever an example has shown more types, at most kTypedRounds times.
std::string typedPipeline();
constexpr int kTypedRounds = 4;
/// The cuts that a planner chose.
struct PlannedCuts {
  std::vector<size_t> places; // indices of the operators that follow a cut
  std::vector<size_t> order;  // of operators; empty: program order
};
/// From the normalised model to a model with cuts.
std::string cutPipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// From the normalised model to stages.
std::string stagePipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// The whole pipeline, as Compiler::pipelineText, with the planned cuts if they are known.
std::string wholePipeline(const CompileOptions &options, const PlannedCuts &cuts);

} // namespace pipec
