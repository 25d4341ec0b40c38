// The modules whose weights a stage holds, as a tree.
#pragma once

#include "ir/plan/Plan.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// One module of one stage, in order of a walk from the top.
struct StageModuleRow {
  std::string path; // "" for the whole stage
  size_t depth = 0;
  int64_t parameterBytes = 0; // its own and its children's, as stored in the stage file
  int64_t otherBytes = 0;     // buffers and constants
};

/// Uses the plan alone. Weights that arrive on a channel belong to another stage.
std::vector<StageModuleRow> modulesHeldBy(const StagePlan &stage);

void printStageModules(llvm::raw_ostream &out, const Plan &plan);
/// For each stage an array of {name, parameter_bytes, other_bytes}.
llvm::json::Array stageModulesJson(const Plan &plan);

} // namespace pipec
