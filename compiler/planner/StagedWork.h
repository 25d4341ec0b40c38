// Stages on ranks and what running them costs: one point of the search for a schedule, and what no
// schedule of it can beat.
#pragma once

#include "ir/schedule/Generators.h"
#include "ir/schedule/Simulate.h"

namespace pipec {

struct StagedWork {
  Placement placement = Placement::Loop; // as the plan's ranks are
  size_t chunks = 1;                     // stages per rank
  Plan plan;
  RunShape shape; // recompute is the search's
  ProgramCosts costs;
  std::vector<int64_t> fixedBytes; // per rank: what it holds all the time; empty: nothing
  std::vector<int64_t> limitBytes; // per rank; empty: no limit
  std::string schedule;            // only this one; empty: as the search's options say
  size_t tag = 0;                  // what the caller knows it by
  size_t refineActions = ScheduleRequest().refineActions;

  int64_t fixed(size_t rank) const { return fixedBytes.empty() ? 0 : fixedBytes[rank]; }
  bool within(size_t rank, int64_t bytes) const {
    return limitBytes.empty() || bytes <= limitBytes[rank];
  }
};

/// Errors: Usage for a work that does not hold together.
llvm::Error checkWork(const StagedWork &work);

/// The costs of a table that no program of the work beats: recompute is part of the input
/// gradient, and every hop is as fast as the fastest.
ScheduleCosts tableCosts(const StagedWork &work, const std::vector<bool> &recompute);

/// Nanoseconds that no schedule of the work beats.
int64_t lowerBoundOf(const StagedWork &work);

} // namespace pipec
