// Runs the stages of an artifact on the inputs of the source's runs.
#pragma once

#include "compiler/ExampleRuns.h"

#include <map>

namespace pipec {

/// The runs by which the stages are tried: all; of large models without state one call per set of
/// sizes, as one takes seconds.
std::vector<ExampleRun> runsToRepeat(std::vector<ExampleRun> runs, const Plan &plan);

/// Runs the stages in `directory` on the same inputs, several runs at once where they cannot
/// disturb each other: every leaf must be bit-identical. Fills the specs of plan.channels.
/// `instead` as for SerialStages::load. Errors: Internal naming the first output, index and both
/// values of the first run that differs.
llvm::Error runStages(const std::string &directory, Plan &plan, const std::vector<ExampleRun> &runs,
                      const std::map<std::string, at::Tensor> &instead = {},
                      const ProgressCallback &progress = {});

} // namespace pipec
