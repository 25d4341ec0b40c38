// The default schedule of an artifact: generated, or a table from the user.
#pragma once

#include "compiler/Compiler.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// nullptr: the options give none.
const ScheduleTable *givenTable(const CompileOptions &options);

/// The options with what their table says of stages, ranks and micro-batches where they say
/// nothing; without a table as they are. Errors: Unreadable for text that is no table; BadArtifact
/// for a table that is no schedule; Usage for one with a backward and for one that says otherwise.
llvm::Expected<CompileOptions> withScheduleTable(CompileOptions options);

/// The table's rank of each stage; empty: there is no table. Expects options that withScheduleTable
/// accepted.
std::vector<size_t> ranksOfTable(const CompileOptions &options);

/// The table, or the forward-only schedule of the plan.
Schedule defaultSchedule(const CompileOptions &options, const Plan &plan);

} // namespace pipec
