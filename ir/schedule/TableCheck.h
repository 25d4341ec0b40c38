// Whether a table of actions is a schedule, judged from the table alone, without times.
#pragma once

#include "ir/schedule/Schedule.h"

namespace pipec {

/// The shape that a consistent table implies.
struct TableShape {
  size_t stages = 0;
  int64_t microBatches = 0;
  std::vector<size_t> rankOfStage;
  bool backward = false; // true: the table has backward actions
};

/// Checks that every stage is on one rank, every micro-batch runs forward once, and backward once
/// everywhere or nowhere, either whole (B) or in two pieces (I, then W) on the forward's rank, with
/// its recompute, if any, before it, and that nothing comes twice. If the table has sends and
/// receives, every value that crosses ranks must have one of each, sent after it is made and
/// received before it is used. Errors: BadArtifact naming rank, place and action. Sends and
/// receives in different orders between two ranks are no error: `warnings` (may be null) names the
/// pair.
llvm::Expected<TableShape> checkTable(const Schedule &schedule, std::vector<std::string> *warnings);

/// The same for a table that a user gives to a command or to PipelineOptions. Errors: Usage.
llvm::Expected<TableShape> checkGivenTable(const Schedule &schedule);

} // namespace pipec
