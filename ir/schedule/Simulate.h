// The time and memory of a program, simulated op by op: stages of different costs, links, windows,
// recompute, reductions, optimizer.
#pragma once

#include "ir/plan/Cluster.h"
#include "ir/schedule/Program.h"
#include "ir/schedule/Timing.h"

#include <map>

namespace pipec {

/// A link between ranks. Messages pass one after the other, each for its bytes over
/// `bytesPerSecond` (0: no time), and arrive `latency` nanoseconds later.
struct LinkCosts {
  int64_t latency = 0, bytesPerSecond = 0;

  int64_t transferNs(int64_t bytes) const;
};

/// Times in nanoseconds. A list may be empty; its comment gives the default.
struct ProgramCosts {
  std::vector<StageCosts> stages;
  std::vector<int64_t> recompute;       // per stage, time of R; empty: the forward's time
  std::vector<int64_t> keptToRecompute; // per stage, bytes that F keeps until R; empty: none
  std::vector<int64_t> optimize;        // per stage, time of OPT; empty: none
  std::vector<int64_t> gradientBytes;   // per stage, reduced over replicas; empty: none
  std::vector<int64_t> channelBytes;    // per channel; empty: as the plan says
  LinkCosts link;                       // between two ranks that `linkOf` does not name
  std::vector<LinkCosts> links;
  /// (from, to) -> index into `links`. Pairs with the same link share it: its messages pass one
  /// after the other, see simulate/Links.h.
  std::map<std::pair<size_t, size_t>, size_t> linkOf;
  std::vector<size_t> deviceOfRank; // ranks of one device take turns; empty: a device per rank

  const LinkCosts &between(size_t from, size_t to) const;
  int64_t bytesOf(const Plan &plan, size_t channel) const;
  /// The time of the norm or the finite check: up and down a tree.
  int64_t treeNs(const std::vector<size_t> &ranks) const;
};

/// Fills links, linkOf and deviceOfRank for the messages and reductions of `program`. Rank r is on
/// device r modulo the number of devices. Ranks of one device take turns and exchange values
/// without a link. The device pairs of a shared link share it in both directions. Of any other link
/// every ordered pair has its own copy.
void placeOn(const Cluster &cluster, const Program &program, ProgramCosts &costs);

/// `peakBytes` counts the values that stages keep, every buffer from its POST until the last stage
/// of the rank has read it, and every sent value until it is taken. `ranks` is like Program::ranks.
struct SimulatedRun : Timing {
  int64_t lowerBound = 0;          // no order of these ops ends earlier
  std::vector<size_t> mostWaiting; // per lane: messages sent and not taken
};

/// Ranks run their ops in order. A message waits for its link, a SEND while its lane is full, a
/// TAKE for its message. Transfers and reductions do not occupy ranks: the ops that need their
/// results (norm, finite check, OPT) wait. Tie sums, norm and finite check wait for all members.
/// Expects a program that check() accepts. Errors: Usage if `costs` is of another plan; BadArtifact
/// if ranks wait for each other. `keepIntervals`: fill `ranks`.
llvm::Expected<SimulatedRun> simulate(const Program &program, const Plan &plan,
                                      const RunShape &shape, const ProgramCosts &costs,
                                      bool keepIntervals = true);

/// The intervals of the actions of `schedule`, like Schedule::ranks; all else is the run's.
/// `program` was lowered from `schedule` without replicas, and `run` kept its intervals.
Timing actionTiming(const Schedule &schedule, const Program &program, const SimulatedRun &run);

/// A certificate: with any schedule, a run of this shape takes at least this long. A device must
/// wait for its first input and then do all its work, one micro-batch must go all the way there and
/// back, and a link must carry all its bytes.
int64_t runLowerBound(const Plan &plan, const RunShape &shape, const ProgramCosts &costs);

} // namespace pipec
