// The one list of passes, as text that pipe-opt takes.
#pragma once

#include "compiler/Compiler.h"

namespace pipec {

/// Names of modules and weights stand in that text. Errors: Usage for one that cannot.
llvm::Error checkNames(const CompileOptions &options);

/// From the imported method to the normalised flat model.
std::string frontPipeline(const CompileOptions &options);
/// What runs again whenever an example has shown more types, at most kTypedRounds times.
std::string typedPipeline();
constexpr int kTypedRounds = 4;
/// What a planner says of cuts.
struct PlannedCuts {
  std::vector<size_t> places; // before these operators
  std::vector<size_t> order;  // of operators; empty: as in the program
};
/// From the normalised model to places where it may be cut.
std::string cutPipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// From there to stages: all from the normalised model.
std::string stagePipeline(const CompileOptions &options, const PlannedCuts &cuts = {});
/// All of it, as Compiler::pipelineText, with the planned cuts where they are known.
std::string wholePipeline(const CompileOptions &options, const PlannedCuts &cuts);

} // namespace pipec
