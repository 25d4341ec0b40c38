// How long a step of a plan will take, from what its operators cost.
#pragma once

#include "compiler/Compiler.h"
#include "ir/plan/Cluster.h"
#include "ir/plan/CostTable.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// Fills report.prediction from report.plan, whose stages have costs: `schedule`, the plan's,
/// simulated on the cluster's first devices and links. `table`: of the model's operators.
/// `boundaries`: the operators that stages begin with; empty: not known, so every stage is slowed
/// down by other ranks as the whole model is.
llvm::Error predict(CompileReport &report, const Cluster &cluster, const CostTable &table,
                    const std::vector<size_t> &boundaries, const Schedule &schedule);

} // namespace pipec
