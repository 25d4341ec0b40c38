// Stages on ranks and their costs: one point of the search for a schedule, and the bound that holds
// for every schedule of it.
#pragma once

#include "ir/schedule/Generators.h"
#include "ir/schedule/Simulate.h"

namespace pipec {

struct StagedWork {
  Placement placement = Placement::Loop; // of the plan's ranks
  size_t chunks = 1;                     // stages per rank
  Plan plan;
  RunShape shape; // the search sets its recompute
  ProgramCosts costs;
  std::vector<int64_t> fixedBytes; // per rank: permanently held; empty: nothing
  std::vector<int64_t> limitBytes; // per rank; empty: no limit
  std::string schedule;            // the only one to try; empty: the search's options
  size_t tag = 0;                  // the caller's identification
  size_t refineActions = ScheduleRequest().refineActions;

  int64_t fixed(size_t rank) const { return fixedBytes.empty() ? 0 : fixedBytes[rank]; }
  bool within(size_t rank, int64_t bytes) const {
    return limitBytes.empty() || bytes <= limitBytes[rank];
  }
};

/// Errors: Usage for an inconsistent work.
llvm::Error checkWork(const StagedWork &work);

/// Costs of a table that no program of the work beats: recompute is part of the input gradient, and
/// every hop is as fast as the fastest.
ScheduleCosts tableCosts(const StagedWork &work, const std::vector<bool> &recompute);

/// A lower bound in nanoseconds for every schedule of the work.
int64_t lowerBoundOf(const StagedWork &work);

} // namespace pipec
