// How long a program takes and what it holds, op by op: stages of different costs, links, windows,
// recompute, reductions, optimizer.
#pragma once

#include "ir/plan/Cluster.h"
#include "ir/schedule/Program.h"
#include "ir/schedule/Timing.h"

#include <map>

namespace pipec {

/// A way between ranks: a message takes its bytes over `bytesPerSecond` (0: no time), one after the
/// other, and arrives `latency` nanoseconds later.
struct LinkCosts {
  int64_t latency = 0, bytesPerSecond = 0;

  int64_t transferNs(int64_t bytes) const;
};

/// Times in nanoseconds. Lists may be empty: what they say then stands beside them.
struct ProgramCosts {
  std::vector<StageCosts> stages;
  std::vector<int64_t> recompute;       // per stage, time of R; empty: its forward's
  std::vector<int64_t> keptToRecompute; // per stage, bytes that F keeps until R; empty: none
  std::vector<int64_t> optimize;        // per stage, time of OPT; empty: none
  std::vector<int64_t> gradientBytes;   // per stage, reduced over replicas; empty: none
  std::vector<int64_t> channelBytes;    // per channel; empty: as the plan says
  LinkCosts link;                       // between two ranks that `linkOf` does not name
  std::vector<LinkCosts> links;
  /// (from, to) -> index into `links`. Pairs that name the same link share it: what goes over it
  /// goes one after the other, see simulate/Links.h.
  std::map<std::pair<size_t, size_t>, size_t> linkOf;
  std::vector<size_t> deviceOfRank; // ranks of one device compute in turns; empty: one each

  const LinkCosts &between(size_t from, size_t to) const;
  int64_t bytesOf(const Plan &plan, size_t channel) const;
  /// Of the norm or the finite check: there and back through a tree.
  int64_t treeNs(const std::vector<size_t> &ranks) const;
};

/// Fills links, linkOf and deviceOfRank for what `program` sends and reduces: rank r is on device
/// r modulo their number, ranks of one device take turns and hand values over without a link. Pairs
/// of devices that a shared link stands for share it in both directions; of another link every
/// ordered pair has its own.
void placeOn(const Cluster &cluster, const Program &program, ProgramCosts &costs);

/// `peakBytes` counts what stages keep, every buffer from its POST until the last stage of the rank
/// has read it, and every sent value until it is taken. `ranks` is like Program::ranks.
struct SimulatedRun : Timing {
  int64_t lowerBound = 0;          // no order of these ops ends earlier
  std::vector<size_t> mostWaiting; // per lane: messages sent and not taken
};

/// Ranks run their ops in order. A message waits for its link; a SEND while its lane is full; a
/// TAKE for its message. Transfers and reductions do not occupy ranks: what follows them waits
/// where it needs them (norm, finite check, OPT), while tie sums, norm and finite check wait for
/// all members. Expects what check() accepts. Errors: Usage when `costs` is of another plan;
/// BadArtifact when ranks wait for each other. `keepIntervals`: fill `ranks`.
llvm::Expected<SimulatedRun> simulate(const Program &program, const Plan &plan,
                                      const RunShape &shape, const ProgramCosts &costs,
                                      bool keepIntervals = true);

/// When the actions of `schedule` ran, like Schedule::ranks; the rest is the run's. `program` was
/// lowered from it and without replicas, `run` kept its intervals.
Timing actionTiming(const Schedule &schedule, const Program &program, const SimulatedRun &run);

/// Certificate: whatever the schedule, a run of this shape takes at least so long, because a device
/// must wait for its first input and then do all its work, one micro-batch must go all the way
/// there and back, and a link must carry all its bytes.
int64_t runLowerBound(const Plan &plan, const RunShape &shape, const ProgramCosts &costs);

} // namespace pipec
