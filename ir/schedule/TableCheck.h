// Is a table of actions a schedule? Judged from the table alone, with no notion of time.
#pragma once

#include "ir/schedule/Schedule.h"

namespace pipec {

/// What a table that holds together says about itself.
struct TableShape {
  size_t stages = 0;
  int64_t microBatches = 0;
  std::vector<size_t> rankOfStage;
  bool backward = false; // there are backward actions
};

/// Every stage on one rank, every micro-batch forward once, and backward once everywhere or
/// nowhere, either whole (B) or in two pieces (I, then W) on the forward's rank; nothing twice.
/// Where the table has sends and receives, every value that crosses ranks has one of each, sent
/// after it was made and received before it is used. Errors: BadArtifact naming rank, place and
/// action. Sends and receives in different orders between two ranks are no error: `warnings` (may
/// be null) names the pair.
llvm::Expected<TableShape> checkTable(const Schedule &schedule, std::vector<std::string> *warnings);

} // namespace pipec
