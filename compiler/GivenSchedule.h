// The default schedule of an artifact: made, or a table that the user gave.
#pragma once

#include "compiler/Compiler.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// The options with what their table says of stages, ranks and micro-batches where they say
/// nothing; without a table as they are. Errors: Unreadable for text that is no table; BadArtifact
/// for a table that is no schedule; Usage for one with a backward and for one that says otherwise.
llvm::Expected<CompileOptions> withScheduleTable(CompileOptions options);

/// Of each stage, as the table has it; empty: there is none. Expects what withScheduleTable took.
std::vector<size_t> ranksOfTable(const CompileOptions &options);

/// The table, else forward-only for the plan.
Schedule defaultSchedule(const CompileOptions &options, const Plan &plan);

} // namespace pipec
