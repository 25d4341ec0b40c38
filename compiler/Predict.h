// How long a step of a plan will take, from what its operators cost.
#pragma once

#include "compiler/Compiler.h"
#include "ir/plan/Cluster.h"

namespace pipec {

/// Fills report.prediction from report.plan, whose stages have costs: the plan's schedule simulated
/// on the cluster's first devices and links.
llvm::Error predict(CompileReport &report, const Cluster &cluster);

} // namespace pipec
