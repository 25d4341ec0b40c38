// Predicts the time of a plan's step from the costs of its operators.
#pragma once

#include "compiler/CompileReport.h"
#include "ir/costs/Cluster.h"
#include "ir/costs/CostTable.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// Fills report.prediction from report.plan, whose stages have costs, by simulating `schedule`, the
/// plan's schedule, on the cluster's first devices and links. `table` has the model's operators.
/// `boundaries`: the operators that stages begin with; if they are empty (not known), other ranks
/// slow down every stage as they slow down the whole model.
llvm::Error predict(CompileReport &report, const Cluster &cluster, const CostTable &table,
                    const std::vector<size_t> &boundaries, const Schedule &schedule);

} // namespace pipec
