// The default schedule of an artifact: generated, or a table from the user.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// nullptr: the options give none.
const ScheduleTable *givenTable(const CompileOptions &options);

/// The options, with the numbers of stages, ranks and micro-batches of their table where the
/// options do not set them. Without a table they do not change. Errors: Unreadable for text that is
/// no table; BadArtifact for a table that is no schedule; Usage for a table with backward actions
/// or with other numbers or recomputes than the options.
llvm::Expected<CompileOptions> withScheduleTable(CompileOptions options);

/// The table's rank of each stage; empty: there is no table. Expects options that withScheduleTable
/// accepted.
std::vector<size_t> ranksOfTable(const CompileOptions &options);

/// The table, or the forward-only schedule of the plan.
Schedule defaultSchedule(const CompileOptions &options, const Plan &plan);

} // namespace pipec
