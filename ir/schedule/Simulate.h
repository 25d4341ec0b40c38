// The time and memory of a program, simulated op by op: stages of different costs, links, windows,
// recompute, reductions, optimizer.
#pragma once

#include "ir/schedule/ProgramCosts.h"

namespace pipec {

/// `peakBytes` counts the values that stages keep, every buffer from its POST (or its TAKE) until
/// the last stage of the rank has read it, every sent value until it is taken, and the room that an
/// op needs. `ranks` is like Program::ranks.
struct SimulatedRun : Timing {
  int64_t lowerBound = 0;          // no order of these ops ends earlier
  std::vector<size_t> mostWaiting; // per lane: messages sent and not taken
};

/// Ranks run their ops in order. A message waits for its link, a SEND while its lane is full, a
/// TAKE for its message. Transfers and reductions do not occupy ranks: the ops that need their
/// results (norm, OPT) wait. Tie sums and the norm wait for all members.
/// Expects a program that check() accepts. Errors: Usage if `costs` is of another plan; BadArtifact
/// if ranks wait for each other. `keepIntervals`: fill `ranks`.
llvm::Expected<SimulatedRun> simulate(const Program &program, const Plan &plan,
                                      const RunShape &shape, const ProgramCosts &costs,
                                      bool keepIntervals = true);

} // namespace pipec
