// Reads instances in the format of tests/support/piper/README.md, writes plans.
#pragma once

#include "compiler/planner/hybrid/Hybrid.h"

namespace pipec {

/// Without devices and memory, which the file does not say. Errors: Unreadable, with its name.
llvm::Expected<HybridProblem> readPiper(const std::string &path);

/// {"stages":[{"nodes":[ids],"dataParallelDegree":d,"tensorParallelDegree":t,"TMPCids":{node:
/// variant}}]}
std::string piperPlanText(const HybridProblem &problem, const std::vector<HybridStage> &stages);

} // namespace pipec
