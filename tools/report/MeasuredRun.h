// A trace of pipe-run as schedules with times.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Timing.h"

namespace pipec {

struct MeasuredRun {
  std::string schedule;       // its name
  int64_t microBatches = 0;   // of each replica
  int64_t batches = 1;        // of the step; the last one is shown
  int64_t replicas = 1;       // the first has the first ranks of `actions`, and so on
  Schedule actions;           // of both; transfers are left out
  Timing measured, predicted; // of `actions`
};

/// Reads a file that pipe-run --trace wrote for this plan. Errors: Unreadable, or Usage if the
/// trace has more stages, or ranks in a replica, than the plan has stages.
llvm::Expected<MeasuredRun> measuredRunFrom(llvm::StringRef text, const std::string &name,
                                            const Plan &plan);

} // namespace pipec
