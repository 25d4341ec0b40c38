// The costs of a model's operators: counted, measured, or read from a table.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/Model.h"
#include "ir/costs/Cluster.h"
#include "ir/costs/CostTable.h"
#include "passes/PassContext.h"

namespace pipec {

/// Costs in a model count operations; a nominal core does this many in a nanosecond.
constexpr int64_t kFlopsPerNs = kCoreFlopsPerSecond / 1'000'000'000;

/// Fills context.costs as `cost` says and returns the same as a table; notes for the report go to
/// context.notes. Counted costs are work against the rates of
/// `device`: deterministic. Measured ones are medians of runs on this machine within
/// options.costBudgetNs, with one thread, as on one of `ranks`. `inputs`: one value per argument.
/// Errors: Usage for a table of another model; IO; those of GraphEvaluator.
llvm::Expected<CostTable> findCosts(Model &model, PassContext &context,
                                    const std::vector<c10::IValue> &inputs, const CostSource &cost,
                                    const CompileOptions &options, const ClusterDevice &device,
                                    size_t ranks);

} // namespace pipec
